package access

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// The secrets of a session form a chain, in which each is a hash of the one before:
//
//	refresh token → cookie → sid → id
//
// The client of /v1 holds the refresh token, a browser only the cookie. The sid names the
// session in access tokens. The id alone is stored, recorded and shown. So the database
// signs nothing, not even together with the key of access tokens, and the holder of one
// secret can derive those that follow, but none before it.
const (
	cookieLabel = "gatehouse cookie\x00"
	sidLabel    = "gatehouse sid\x00"
)

// refreshLen is the length of a UUID's text form (RFC 9562, section 4).
const refreshLen = 36

// newRefresh makes a refresh token: a version 4 UUID (specification, "Token pair"), which is
// 122 random bits. The sum is what the version before looks for in the store.
func newRefresh() (refresh site.Secret, sum [32]byte) {
	id := uuid.New()
	return site.Secret(id.String()), sha256.Sum256(id[:])
}

// cookieOf derives the cookie from a refresh token; ok is false for a text that is no UUID
// in the usual form.
func cookieOf(refresh site.Secret) (cookie site.Secret, ok bool) {
	text := refresh.Reveal()
	if len(text) != refreshLen {
		return "", false
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", false
	}
	return hashed(cookieLabel, id[:]), true
}

// sidOf derives the sid from a cookie.
func sidOf(cookie site.Secret) site.Secret { return hashed(sidLabel, []byte(cookie)) }

// idOf derives the id of a session from its sid: a UUID of version 8, made of its SHA-256
// (RFC 9562, appendix B.2).
func idOf(sid site.Secret) site.SessionID {
	return site.SessionID(uuid.NewHash(sha256.New(), uuid.Nil, []byte(sid), 8).String())
}

// hashed returns the SHA-256 of a label and a secret, as base64url.
func hashed(label string, secret []byte) site.Secret {
	sum := sha256.Sum256(append([]byte(label), secret...))
	return site.Secret(base64.RawURLEncoding.EncodeToString(sum[:]))
}
