package attacktest_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// stolen is the key of a gateway's authority in the hands of someone else.
type stolen struct {
	t    *testing.T
	key  crypto.Signer
	cert *x509.Certificate
	path string // of its certificate, which people trust
}

// steal takes the authority out of a data folder, as somebody with a backup or the service
// user's rights does.
func steal(t *testing.T, data string) stolen {
	t.Helper()
	s := stolen{t: t, path: filepath.Join(data, "tls", "ca.crt")}
	key, err := x509.ParsePKCS8PrivateKey(block(t, filepath.Join(data, "tls", "ca.key")))
	if err != nil {
		t.Fatal(err)
	}
	s.key = key.(crypto.Signer) //nolint:errcheck,forcetypeassert // every private key is one
	if s.cert, err = x509.ParseCertificate(block(t, s.path)); err != nil {
		t.Fatal(err)
	}
	return s
}

// block returns what the first PEM block of a file holds.
func block(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := pem.Decode(text)
	if b == nil {
		t.Fatalf("%s holds no PEM", path)
	}
	return b.Bytes
}

// sign signs a server certificate for a name or address, or with the name in its subject
// alone.
func (s stolen) sign(name string, subjectOnly bool) *tls.Certificate {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	switch ip := net.ParseIP(name); {
	case subjectOnly:
	case ip != nil:
		template.IPAddresses = []net.IP{ip}
	default:
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.cert, key.Public(), s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// goAccepts reports whether Go's verifier accepts a certificate for a name.
func (s stolen) goAccepts(leaf *x509.Certificate, name string) bool {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
	return err == nil
}

// opensslAccepts reports whether OpenSSL's does.
func (s stolen) opensslAccepts(leaf *x509.Certificate, name string) bool {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "leaf.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	which := "-verify_hostname"
	if net.ParseIP(name) != nil {
		which = "-verify_ip"
	}
	out, err := exec.CommandContext(s.t.Context(), "openssl", "verify", "-purpose", "sslserver", "-CAfile", s.path, which, name, path).CombinedOutput() //nolint:gosec // of this test
	if err != nil && len(out) == 0 {                                                                                                                    // a refusal has a reason
		s.t.Fatalf("openssl: %v", err)
	}
	return err == nil
}

// refused checks that both refuse it.
func (s stolen) refused(forged *x509.Certificate, name string) {
	s.t.Helper()
	if s.goAccepts(forged, name) || s.opensslAccepts(forged, name) {
		s.t.Errorf("%s is accepted: Go %t, OpenSSL %t", name, s.goAccepts(forged, name), s.opensslAccepts(forged, name))
	}
}

// ownNames are what apps and stations call the gateway of these tests.
func ownNames() []string {
	return []string{"gatehouse", "gatehouse.local", "localhost", "127.0.0.1", "::1"}
}

// foreignNames are what the key of a gateway must not be good for.
func foreignNames() []string {
	return []string{"example.com", "bank.example.com", "local.example.com", "notlocal", "gatehouse.com", "8.8.8.8", "172.32.0.1", "2606:4700::1111"}
}

// Possible: a thief of the key of the gateway's authority, which every backup holds,
// could pose as any site to the phones that trust the gateway, until 2060.
func TestAttack_authorityKey(t *testing.T) {
	need.Program(t, "openssl")
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_NAME=gatehouse", "GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}})
	s := steal(t, p.Data)
	if s.cert.NotAfter.After(time.Now().AddDate(10, 0, 1)) {
		t.Errorf("the authority lives until %s", s.cert.NotAfter)
	}
	own, err := x509.ParseCertificate(block(t, filepath.Join(p.Data, "tls", "server.crt")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ownNames() {
		if !s.goAccepts(own, name) || !s.opensslAccepts(own, name) {
			t.Errorf("the gateway is refused as %s: Go %t, OpenSSL %t", name, s.goAccepts(own, name), s.opensslAccepts(own, name))
		}
	}
	for _, name := range foreignNames() {
		s.refused(s.sign(name, false).Leaf, name)
	}
	s.refused(s.sign("example.com", true).Leaf, "example.com")
}
