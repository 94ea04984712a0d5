package api

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	"gatehouse/internal/site"
)

const (
	privateBlock = "PRIVATE KEY" // RFC 7468, section 10
	keyIDPrefix  = "kid: "
)

// PrivateKey signs commands. Whatever prints it shows "redacted"; only
// [PrivateKey.PEM] returns it.
type PrivateKey struct {
	id  string
	key ed25519.PrivateKey
}

// Generate makes a new key. With "" for its id, it is named by its public half.
func Generate(id string) (PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("making a key: %w", err)
	}
	return newPrivateKey(id, private)
}

func newPrivateKey(id string, key ed25519.PrivateKey) (PrivateKey, error) {
	k := PrivateKey{id: id, key: key}
	if id == "" {
		k.id = derivedID(k.public())
	}
	if !ValidKeyID(k.id) {
		return PrivateKey{}, errKeyID
	}
	return k, nil
}

var errPrivate = errors.New("it holds no Ed25519 private key in PEM without a passphrase; \"gatehouse cloud keygen\" makes one")

// ParsePrivateKey reads the text of a file as [PrivateKey.PEM] returns it, or as "openssl
// genpkey -algorithm ed25519" does. A key without a line of its id is named by its
// public half. Errors never quote the text.
func ParsePrivateKey(text []byte) (PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != privateBlock {
		return PrivateKey{}, errPrivate
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return PrivateKey{}, errPrivate
	}
	return newPrivateKey(statedID(text), private)
}

// statedID returns the id in the text before the PEM block, which other programs ignore
// (RFC 7468, section 2), or "".
func statedID(text []byte) string {
	before, _, _ := bytes.Cut(text, []byte("-----BEGIN"))
	for line := range strings.Lines(string(before)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), strings.TrimSpace(keyIDPrefix)); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// PEM returns the text of the key's file: a line of its id, and the key as PKCS #8 (RFC
// 8410) in PEM.
func (k PrivateKey) PEM() (site.Secret, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return "", fmt.Errorf("writing a private key: %w", err)
	}
	return site.Secret(keyIDPrefix + k.id + "\n" + string(pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der}))), nil
}

// Public returns the public half.
func (k PrivateKey) Public() Key { return Key{ID: k.id, Public: k.public()} }

// SignText returns the Ed25519 signature of a text. The text must begin with words that
// say what it is, so that it can be taken for nothing else that this key signs.
func (k PrivateKey) SignText(text []byte) []byte { return ed25519.Sign(k.key, text) }

func (k PrivateKey) public() ed25519.PublicKey {
	public, _ := k.key.Public().(ed25519.PublicKey) // always is
	return public
}

const redacted = "redacted"

// Format implements [fmt.Formatter], for every verb.
func (PrivateKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText implements [encoding.TextMarshaler], which encoding/json and log/slog use.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }
