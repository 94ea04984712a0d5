package api

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxKeyID is the longest id of a key, in bytes: those of the key services of large
// clouds fit.
const MaxKeyID = 128

// Key is the public half of a key that signs commands.
type Key struct {
	ID     string // what tokens name it by, their kid
	Public ed25519.PublicKey
}

// String returns the line for the configuration: the id and, in base64 (RFC 4648,
// section 4), the 32 bytes of the key.
func (k Key) String() string { return k.ID + " " + base64.StdEncoding.EncodeToString(k.Public) }

// ParseKey reads what [Key.String] returns; the base64 may be that for URLs, and without
// padding. Errors never quote the line: either word may be a private key by mistake.
func ParseKey(line string) (Key, error) {
	words := strings.Fields(line)
	if len(words) != 2 {
		return Key{}, errors.New("a key is written as its id, a space and the base64 of its public half, as \"gatehouse cloud keygen\" prints it")
	}
	public := ed25519.PublicKey(decodeBase64(words[1]))
	if len(public) != ed25519.PublicKeySize {
		return Key{}, errors.New("this is not the public half of an Ed25519 key in base64: write what \"gatehouse cloud keygen\" has printed")
	}
	if !ValidKeyID(words[0]) {
		return Key{}, errKeyID
	}
	if smallOrder(public) {
		return Key{}, errors.New("this key has no private half: anyone can sign for it")
	}
	if isPrivateHalf(words[0], public) {
		return Key{}, errors.New("the id of a key is its private half: make a new key, and write an id that anyone may see")
	}
	return Key{ID: words[0], Public: public}, nil
}

// decodeBase64 takes both alphabets, with and without padding; nil for what is none.
func decodeBase64(text string) []byte {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	raw, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil
	}
	return raw
}

// smallOrder reports whether the key is a point of small order, such as the one of zeros
// that a template may hold: R = 1, S = 0 is its signature of one message in eight or more.
func smallOrder(public ed25519.PublicKey) bool {
	signature := append([]byte{1}, make([]byte, ed25519.SignatureSize-1)...)
	for n := range byte(32) {
		if ed25519.Verify(public, []byte{n}, signature) {
			return true
		}
	}
	return false
}

// isPrivateHalf reports whether text is the seed of the key in base64 or hexadecimal, begins
// with it (the public half follows) or ends with it (PKCS #8). Ids are shown and recorded, so
// this mistake would publish the key.
func isPrivateHalf(text string, public ed25519.PublicKey) bool {
	fromHex, _ := hex.DecodeString(text) // what is none ends early
	for _, raw := range [][]byte{fromHex, decodeBase64(text)} {
		for n := len(raw) - ed25519.SeedSize; n >= 0; n -= ed25519.SeedSize {
			if public.Equal(ed25519.NewKeyFromSeed(raw[n:][:ed25519.SeedSize]).Public()) {
				return true
			}
		}
	}
	return false
}

var errKeyID = fmt.Errorf("the id of a key has 1 to %d visible ASCII characters, no quotes, backslashes or commas", MaxKeyID)

// ValidKeyID reports whether a key may have that id.
func ValidKeyID(id string) bool {
	return id != "" && len(id) <= MaxKeyID && !strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\' || r == ','
	})
}

// derivedID names a key without a name: by the first 8 bytes of the SHA-256 of
// its public half, in hexadecimal.
func derivedID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Keyring holds the keys that are trusted. The zero Keyring trusts none. It never
// changes once made.
type Keyring struct {
	keys map[string]ed25519.PublicKey
}

// NewKeyring reads the keys of the configuration, one a line, in the form of
// [ParseKey]. Two of the same id are refused: a token could not name one of them.
func NewKeyring(lines []string) (Keyring, error) {
	r := Keyring{keys: make(map[string]ed25519.PublicKey, len(lines))}
	for i, line := range lines {
		key, err := ParseKey(line)
		if err != nil {
			return Keyring{}, fmt.Errorf("key %d of %d: %w", i+1, len(lines), err)
		}
		if r.Has(key.ID) {
			return Keyring{}, fmt.Errorf("key %d of %d: there is another with the id %s: name each differently", i+1, len(lines), key.ID)
		}
		r.keys[key.ID] = key.Public
	}
	return r, nil
}

// Has reports whether a key of that id is trusted.
func (r Keyring) Has(id string) bool { return r.keys[id] != nil }

// Key returns the trusted key of that id.
func (r Keyring) Key(id string) (Key, bool) { return Key{ID: id, Public: r.keys[id]}, r.Has(id) }

// Trusts reports whether that very key is trusted, and not only one of its id.
func (r Keyring) Trusts(key Key) bool { return r.Has(key.ID) && r.keys[key.ID].Equal(key.Public) }

// Len is how many keys are trusted.
func (r Keyring) Len() int { return len(r.keys) }

// IDs lists the ids of the trusted keys in order.
func (r Keyring) IDs() []string {
	return slices.Sorted(maps.Keys(r.keys))
}
