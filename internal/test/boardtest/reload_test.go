//go:build board

package boardtest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/test/await"
)

// A reload takes a new configuration and new certificates, and nobody's connection
// is the worse for it.
func TestReload(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		before := b.number(service, "MainPID")

		b.write("/etc/gatehouse/conf.d/60-log.toml", "[log]\nlevel = \"debug\"\n")
		b.reload()
		d.mustOpen()
		b.awaitLogged(service, "level=DEBUG")

		b.write("/etc/gatehouse/conf.d/61-tls.toml",
			"[tls]\ncertificate = \"/etc/gatehouse/own.crt\"\nkey = \"/etc/gatehouse/own.key\"\n")
		for _, name := range []string{"first", "renewed"} {
			authority := b.ownCertificate(name)
			b.reload()
			b.awaitCertificate("443", name)
			b.awaitCertificate("8883", name)
			d.trust(authority)
			d.mustOpen()
		}
		t.Run("invalid", b.with(func(b *board) { checkInvalidReload(b, d) }))

		if n := d.count(stationsim.Connected); n != 1 {
			t.Errorf("the station connected %d times", n)
		}
		if after := b.number(service, "MainPID"); after != before {
			t.Errorf("the gateway is process %d, and was %d", after, before)
		}
	})
}

// checkInvalidReload: a reload that cannot be says why, and changes nothing.
func checkInvalidReload(b *board, d *door) {
	for file, test := range map[string]struct{ text, where string }{
		"70-value.toml": {"[log]\nlevel = \"loud\"\n", "/etc/gatehouse/conf.d/70-value.toml:2"},
		"71-key.toml":   {"\n\n[http]\nlisten_on = [\"[::]:80\"]\n", "/etc/gatehouse/conf.d/71-key.toml:4"},
		"72-files.toml": {"[tls]\ncertificate = \"/etc/gatehouse/none.crt\"\nkey = \"/etc/gatehouse/none.key\"\n", "/etc/gatehouse/none.crt"},
	} {
		b.write("/etc/gatehouse/conf.d/"+file, test.text)
		out, err := b.try("systemctl reload " + service)
		if err == nil {
			b.Errorf("with %s the reload succeeds: %s", file, out)
		}
		b.awaitLogged(service, test.where)
		if state := b.property(service, "ActiveState"); state != "active" {
			b.Errorf("with %s the service is %s", file, state)
		}
		d.mustOpen()
		if out, err := b.try("gatehouse serve --check"); err == nil || !strings.Contains(out, test.where) {
			b.Errorf("with %s, serve --check: %v\n%s", file, err, out)
		}
		b.sh("rm /etc/gatehouse/conf.d/" + file)
	}
	b.reload()
	d.mustOpen()
}

// ownCertificate puts a certificate with that name on the board, as an owner's own
// authority would issue it, and returns the authority.
func (b *board) ownCertificate(name string) []byte {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	b.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(b.address)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	b.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	b.must(err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	b.write("/etc/gatehouse/own.crt", string(certificate))
	b.write("/etc/gatehouse/own.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	b.sh("chown gatehouse /etc/gatehouse/own.key && chmod 600 /etc/gatehouse/own.key")
	return certificate
}

// awaitCertificate waits until a port shows the certificate with that name.
func (b *board) awaitCertificate(port, name string) {
	b.Helper()
	await.Until(b, "port "+port+" shows the certificate "+name, func() bool {
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(await.Context(b), "tcp", net.JoinHostPort(b.address, port))
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName == name
	})
}
