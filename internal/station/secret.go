package station

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Bounds of secrets and tokens that are given instead of generated.
const (
	minSecret, maxSecret = 12, 128
	minToken, maxToken   = 8, 128
)

// Authenticate reports whether secret is the secret of that station, and under
// which generation of it; [Service.Connected] wants the generation back. The work
// is the same whether or not the station exists.
func (s *Service) Authenticate(id site.StationID, secret site.Secret) (generation uint64, ok bool) {
	l, known := s.find(id)
	if !known {
		l = s.nobody
	}
	e := l.enrolled.Load()
	if right := matches(e.station.Secret, secret); !right || !known {
		return 0, false
	}
	return e.generation, true
}

// SecretMatches reports whether secret is the secret of that station.
func (s *Service) SecretMatches(id site.StationID, secret site.Secret) bool {
	_, ok := s.Authenticate(id, secret)
	return ok
}

// newSecret makes a station secret: 26 characters of upper-case base32, 130 bits
// (contract, section 2).
func newSecret() site.Secret { return site.Secret(rand.Text()) }

// newToken makes a station token of the same strength, in lower case, because it
// stands in URLs.
func newToken() site.Secret { return site.Secret(strings.ToLower(rand.Text())) }

// checkSecret says what is wrong with a given secret.
func checkSecret(secret site.Secret) error {
	printable := func(r rune) bool { return r >= ' ' && r <= '~' }
	return checkWord("station secret", "printable ASCII characters", secret, minSecret, maxSecret, printable)
}

// checkToken says what is wrong with a given token: it has to stand in a URL as
// it is (RFC 3986, section 2.3, unreserved characters).
func checkToken(token site.Secret) error {
	unreserved := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._~-", r)
	}
	return checkWord("station token", "letters, digits and . _ ~ -", token, minToken, maxToken, unreserved)
}

func checkWord(what, of string, word site.Secret, shortest, longest int, allowed func(rune) bool) error {
	text := word.Reveal()
	bad := strings.IndexFunc(text, func(r rune) bool { return !allowed(r) }) >= 0
	if bad || len(text) < shortest || len(text) > longest {
		return fault.New(fault.Invalid, fmt.Sprintf("A %s has %d to %d %s", what, shortest, longest, of))
	}
	return nil
}

// hashSecret gives what is kept of a secret.
func hashSecret(secret site.Secret) site.SecretHash {
	var h site.SecretHash
	_, _ = rand.Read(h.Salt[:]) // never fails: crypto/rand ends the process first
	h.Sum = saltedSum(h.Salt, secret)
	return h
}

// matches compares in a time that depends on the length of secret alone.
func matches(h site.SecretHash, secret site.Secret) bool {
	if len(secret) > maxSecret {
		return false
	}
	sum := saltedSum(h.Salt, secret)
	return subtle.ConstantTimeCompare(sum[:], h.Sum[:]) == 1
}

func saltedSum(salt [16]byte, secret site.Secret) [32]byte {
	buf := make([]byte, 0, len(salt)+maxSecret)
	buf = append(buf, salt[:]...)
	buf = append(buf, secret.Reveal()...)
	return sha256.Sum256(buf)
}

// tokenKey is the SHA-256 of a station token.
type tokenKey [sha256.Size]byte

func keyOf(token site.Secret) tokenKey {
	buf := make([]byte, 0, maxToken)
	return sha256.Sum256(append(buf, token.Reveal()...))
}
