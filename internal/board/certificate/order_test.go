package certificate_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"gatehouse/internal/board/certificate"
)

// pair is a certificate that another authority has issued, and its key, as PEM.
type pair struct{ cert, key string }

// order makes a pair for gate.example.test.
func order(t testing.TB, change func(*x509.Certificate)) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{orderFor(t, key, change), block("PRIVATE KEY", text)}
}

// orderFor makes a certificate for a key.
func orderFor(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) string {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ordered"}, DNSNames: []string{"gate.example.test"},
		NotBefore: today.Add(-day), NotAfter: today.Add(90 * day), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", der)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// configure puts a pair into files and names them in the configuration.
func (h *house) configure(p pair) {
	h.Helper()
	folder := filepath.Dir(h.cfg.Folder)
	h.cfg.Certificate, h.cfg.Key = filepath.Join(folder, "given.crt"), filepath.Join(folder, "given.key")
	write(h, h.cfg.Certificate, p.cert)
	write(h, h.cfg.Key, p.key)
}

// leaf parses the first certificate of a PEM text.
func leaf(t testing.TB, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no PEM: %q", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// short tells two certificates apart in a message.
func short(i certificate.Info) string {
	return fmt.Sprintf("%s %.11s until %s", i.Source, i.Fingerprint, i.NotAfter.Format(time.DateOnly))
}
