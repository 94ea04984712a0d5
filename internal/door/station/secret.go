package station

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"gatehouse/internal/site"
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
		s.refused(l, detailLogins)
		return 0, false
	}
	return e.generation, true
}

// SecretMatches reports whether secret is the secret of that station.
func (s *Service) SecretMatches(id site.StationID, secret site.Secret) bool {
	l, known := s.find(id)
	return known && matches(l.enrolled.Load().station.Secret, secret)
}

// newSecret makes a station secret: 26 characters of upper-case base32, 130 bits
// (contract, section 2).
func newSecret() site.Secret { return site.Secret(rand.Text()) }

// newToken makes a station token of the same strength, in lower case, because it
// is part of URLs.
func newToken() site.Secret { return site.Secret(strings.ToLower(rand.Text())) }

// checkSecret returns what is wrong with a given secret.
func checkSecret(secret site.Secret) error {
	return demand(site.ValidStationSecret(secret), "A station secret has %d to %d printable ASCII characters", site.MinStationSecret, site.MaxStationSecret)
}

// checkToken returns what is wrong with a given token.
func checkToken(token site.Secret) error {
	return demand(site.ValidStationToken(token), "A station token has %d to %d letters, digits and . _ ~ -", site.MinStationToken, site.MaxStationToken)
}

// hashSecret returns what is kept of a secret.
func hashSecret(secret site.Secret) site.SecretHash {
	var h site.SecretHash
	_, _ = rand.Read(h.Salt[:]) // never fails: crypto/rand ends the process first
	h.Sum = saltedSum(h.Salt, secret)
	return h
}

// matches compares in a time that depends on the length of secret alone.
func matches(h site.SecretHash, secret site.Secret) bool {
	if len(secret) > site.MaxStationSecret {
		return false
	}
	sum := saltedSum(h.Salt, secret)
	return subtle.ConstantTimeCompare(sum[:], h.Sum[:]) == 1
}

func saltedSum(salt [16]byte, secret site.Secret) [32]byte {
	buf := make([]byte, 0, len(salt)+site.MaxStationSecret)
	buf = append(buf, salt[:]...)
	buf = append(buf, secret.Reveal()...)
	return sha256.Sum256(buf)
}

// tokenKey is the SHA-256 of a station token.
type tokenKey [sha256.Size]byte

func keyOf(token site.Secret) tokenKey {
	buf := make([]byte, 0, site.MaxStationToken)
	return sha256.Sum256(append(buf, token.Reveal()...))
}
