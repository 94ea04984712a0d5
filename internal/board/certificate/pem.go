package certificate

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// The types of PEM blocks that are written (RFC 7468).
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

// What a PEM text may lack.
var (
	errNoCertificate = errors.New("no certificate in it")
	errNoKey         = errors.New("no private key in it")
	errLocked        = errors.New("the private key is protected with a passphrase")
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
		return nil, errNoCertificate
	}
	return all, nil
}

// parseKey reads the first private key in a PEM text. Its errors hold nothing of the
// text, which may be a secret even where it is no key.
func parseKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			return nil, errLocked
		case strings.HasSuffix(block.Type, blockKey):
			return parseKeyBlock(block)
		}
	}
	return nil, errNoKey
}

func parseKeyBlock(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	signer, signs := key.(crypto.Signer)
	if err != nil || !signs {
		return nil, errors.New("the private key is damaged, or of a kind that cannot sign")
	}
	return signer, nil
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

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("the private key cannot be written as PKCS #8")
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}
