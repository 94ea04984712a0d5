package api

import (
	"bytes"
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

// ParseKey reads what [Key.String] returns. The base64 may also be that of a PEM file (a
// SubjectPublicKeyInfo, RFC 8410), and without an id the key is named after itself: older
// gateways took both, and a gateway must start with its configuration of before. Errors
// never quote the line: either word may be a private key by mistake.
func ParseKey(line string) (Key, error) {
	words := strings.Fields(line)
	var public ed25519.PublicKey
	if len(words) > 0 {
		public = parsePublic(words[len(words)-1])
	}
	valid := len(public) == ed25519.PublicKeySize
	if len(words) > 2 || len(words) < 2 && !valid {
		return Key{}, errors.New("a key is written as its id, a space and the base64 of its public half, as \"gatehouse cloud keygen\" prints it")
	}
	if !valid {
		return Key{}, errors.New("this is not the public half of an Ed25519 key in base64: write what \"gatehouse cloud keygen\" has printed")
	}
	key := Key{ID: derivedID(public), Public: public}
	if len(words) == 2 {
		key.ID = words[0]
	}
	switch {
	case !ValidKeyID(key.ID):
		return Key{}, errKeyID
	case smallOrder(public):
		return Key{}, errors.New("this key has no private half: anyone can sign for it")
	case isPrivateHalf(key.ID, public):
		return Key{}, errors.New("the id of a key is its private half: make a new key, and write an id that anyone may see")
	}
	return key, nil
}

// parsePublic decodes the public half of a key; its length is not that of a key where the
// text is none.
func parsePublic(text string) ed25519.PublicKey {
	info := []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00} // RFC 8410, section 4
	raw := decodeBase64(text)
	if key, ok := bytes.CutPrefix(raw, info); ok && len(key) == ed25519.PublicKeySize {
		return key
	}
	return raw
}

// isPrivateHalf reports whether text is, begins with (the public half follows) or ends
// with (PKCS #8) the seed of the key in base64 or hexadecimal. Ids are shown and recorded,
// so this mistake would publish the key.
func isPrivateHalf(text string, public ed25519.PublicKey) bool {
	fromHex, _ := hex.DecodeString(text) // what is none ends early
	for _, raw := range [][]byte{decodeBase64(text), fromHex} {
		if len(raw) < ed25519.SeedSize {
			continue
		}
		for _, seed := range [][]byte{raw[:ed25519.SeedSize], raw[len(raw)-ed25519.SeedSize:]} {
			if public.Equal(ed25519.NewKeyFromSeed(seed).Public()) {
				return true
			}
		}
	}
	return false
}

// decodeBase64 takes both alphabets, with and without padding (RFC 4648, sections 4 and
// 5); nil for what is none.
func decodeBase64(text string) []byte {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	raw, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil
	}
	return raw
}

var errKeyID = fmt.Errorf("the id of a key has 1 to %d visible ASCII characters, no quotes, backslashes or commas", MaxKeyID)

// ValidKeyID reports whether a key may have that id.
func ValidKeyID(id string) bool {
	return id != "" && len(id) <= MaxKeyID && !strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\' || r == ','
	})
}

// smallOrder reports whether the key is one of the points of small order of the curve
// (RFC 8032, section 5.1), such as the one of zeros that a template may hold. For them a
// signature is made without a private key.
func smallOrder(public ed25519.PublicKey) bool {
	masked := slices.Clone(public)
	masked[31] &= 0x7f // the sign of x
	return slices.Contains([]string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	}, hex.EncodeToString(masked))
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
// [ParseKey]. Two of the same id are refused: a token could not say which it means.
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
