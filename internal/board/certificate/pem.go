package certificate

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// The types of PEM blocks that are written (RFC 7468).
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

// parseCertificates reads every certificate in a PEM text, at least one.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != blockCertificate {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d is damaged: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return all, nil
}

// parseKey reads the first private key in a PEM text, as encodeKey writes it. Its errors
// hold nothing of the text.
func parseKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != blockKey {
			continue
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		signer, signs := key.(crypto.Signer)
		if err != nil || !signs {
			return nil, errors.New("the private key is damaged, or of a kind that cannot sign")
		}
		return signer, nil
	}
	return nil, errors.New("no private key in it")
}

// fits reports whether the key is the certificate's.
func fits(key crypto.Signer, c *x509.Certificate) bool {
	public, ok := key.Public().(interface {
		Equal(other crypto.PublicKey) bool
	})
	return ok && public.Equal(c.PublicKey)
}

func encodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: c.Raw})
}

func encodeKey(key crypto.Signer) []byte {
	der, _ := x509.MarshalPKCS8PrivateKey(key) // never fails: it was made here, or read from this form
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der})
}
