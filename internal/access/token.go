package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"gatehouse/internal/access/token"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// accessLife is how long an access token lives (specification, "Limits").
	accessLife = 60 * time.Minute
	// maxAccess bounds the text that is parsed at all; ours have about 350 bytes.
	maxAccess = 1024
	// refreshLen is the length of a UUID's text form (RFC 9562, section 4).
	refreshLen = 36
	// nonceLen is how many random bytes are in each access token.
	nonceLen = 9
)

// errToken is the answer to every token that is not good (contract, section 1).
var errToken = fault.New(fault.Unauthenticated, "Token is invalid")

// Authenticate returns who sends an access token: Unauthenticated unless this gateway
// signed it, it has not expired, its session lives and its account is there. An
// integration token is accepted too; its actor has no session, and never administers. It
// takes no lock for longer than a look-up, so it may be called for every request.
func (s *Service) Authenticate(access site.Secret) (site.Actor, error) {
	if token.Is(access) {
		return s.apps.Authenticate(access)
	}
	return s.authenticate(access, false)
}

// AuthenticateToRevoke is [Service.Authenticate], but takes the token of a session
// too that has ended and whose end could not be stored yet. Only the revocations
// may ask it: it lets a client that was told Unavailable try again.
func (s *Service) AuthenticateToRevoke(access site.Secret) (site.Actor, error) {
	return s.authenticate(access, true)
}

func (s *Service) authenticate(access site.Secret, ending bool) (site.Actor, error) {
	if len(access) > maxAccess {
		return site.Actor{}, errToken
	}
	var said claims
	if _, err := s.tokens.parser.ParseWithClaims(access.Reveal(), &said, s.tokens.choose); err != nil {
		return site.Actor{}, errToken
	}
	actor, ok := s.dir.bySession(said.Session, site.AccountID(said.Subject), s.clock.Now(), ending)
	if !ok {
		return site.Actor{}, errToken
	}
	return actor, nil
}

// AuthenticateRefresh returns who holds a refresh token, as [Service.Authenticate] does of
// an access token.
func (s *Service) AuthenticateRefresh(refresh site.Secret) (site.Actor, error) {
	return s.authenticateRefresh(refresh, false)
}

func (s *Service) authenticateRefresh(refresh site.Secret, ending bool) (site.Actor, error) {
	if sum, ok := sumOfRefresh(refresh); ok {
		if _, actor, ok := s.dir.byRefresh(sum, s.clock.Now(), ending); ok {
			return actor, nil
		}
	}
	return site.Actor{}, errToken
}

// Refresh returns a new access token, unlike every other one, for a refresh token, which
// stays good and may be used in parallel: Unauthenticated when it is unknown, malformed,
// expired or revoked. It writes nothing, so it works while storage fails.
func (s *Service) Refresh(_ context.Context, refresh site.Secret) (site.Secret, error) {
	sum, ok := sumOfRefresh(refresh)
	if !ok {
		return "", errToken
	}
	now := s.clock.Now()
	session, _, ok := s.dir.byRefresh(sum, now, false)
	if !ok {
		return "", errToken
	}
	return s.tokens.sign(session, now)
}

// newRefresh makes a refresh token: a version 4 UUID (specification, "Token
// pair"), which is 122 random bits.
func newRefresh() (refresh site.Secret, sum [32]byte) {
	id := uuid.New()
	return site.Secret(id.String()), sha256.Sum256(id[:])
}

// sumOfRefresh returns what is kept of a refresh token; ok is false for a text that
// is no UUID in the usual form.
func sumOfRefresh(refresh site.Secret) (sum [32]byte, ok bool) {
	text := refresh.Reveal()
	if len(text) != refreshLen {
		return sum, false
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return sum, false
	}
	return sha256.Sum256(id[:]), true
}

// claims are what an access token states (contract, section 1): iss, sub, sid, iat
// and exp.
type claims struct {
	jwt.RegisteredClaims
	Session site.SessionID `json:"sid"`
}

// mint signs and verifies access tokens.
type mint struct {
	key    []byte
	issuer string
	parser *jwt.Parser
	choose jwt.Keyfunc
}

// newMint sets up the only form of token that is taken. The library by itself
// would take tokens without exp, other algorithms and unknown critical headers. The
// iat claim is not judged, because a board's clock may step.
func newMint(key []byte, issuer site.GatewayID, clock site.Clock) mint {
	m := mint{key: key, issuer: string(issuer)}
	m.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithIssuer(m.issuer),
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(clock.Now),
	)
	m.choose = func(t *jwt.Token) (any, error) {
		for name := range t.Header {
			if name != "alg" && name != "typ" && name != headerNonce {
				return nil, errToken
			}
		}
		if t.Header["typ"] != "JWT" {
			return nil, errToken
		}
		return m.key, nil
	}
	return m
}

// headerNonce is the header parameter that makes every token unlike all others: the
// claims of two that are issued within one second are the same.
const headerNonce = "nonce"

// sign makes an access token of a session, which never outlives it.
func (m *mint) sign(of site.Session, issued time.Time) (site.Secret, error) {
	expires := issued.Add(accessLife)
	if of.Expires.Before(expires) {
		expires = of.Expires.Time
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    m.issuer,
			Subject:   string(of.Account),
			IssuedAt:  jwt.NewNumericDate(issued),
			ExpiresAt: jwt.NewNumericDate(expires),
		},
		Session: of.ID,
	})
	token.Header[headerNonce] = base64.RawURLEncoding.EncodeToString(random(nonceLen))
	text, err := token.SignedString(m.key)
	if err != nil {
		return "", fmt.Errorf("signing an access token: %w", err)
	}
	return site.Secret(text), nil
}
