package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/access/token"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// accessLife is how long an access token lives (specification, "Limits").
	accessLife = 60 * time.Minute
	// maxAccess bounds the text that is parsed at all; ours have about 350 bytes.
	maxAccess = 1024
	// nonceLen is how many random bytes are in each access token.
	nonceLen = 9
	// maxVerified bounds the remembered tokens: with their keys some 150 KB.
	maxVerified = 1024
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
	now := s.clock.Now()
	if named, ok := s.bearer(access); ok && now.Before(named.expires) {
		if _, actor, ok := s.dir.bySession(named.session, now, ending); ok && actor.Account == named.account {
			return actor, nil
		}
	}
	return site.Actor{}, errToken
}

// bearer returns what an access token of this gateway states. It may have
// expired since it was seen first.
func (s *Service) bearer(access site.Secret) (bearer, bool) {
	if len(access) > maxAccess {
		return bearer{}, false
	}
	sum := sha256.Sum256([]byte(access))
	if known, ok := s.verified.find(sum); ok {
		return known, true
	}
	var said claims
	if _, err := s.tokens.parser.ParseWithClaims(access.Reveal(), &said, s.tokens.choose); err != nil {
		return bearer{}, false
	}
	b := bearer{account: site.AccountID(said.Subject), session: idOf(site.Secret(said.SID)), expires: said.ExpiresAt.Time}
	s.verified.keep(sum, b)
	return b, true
}

// AuthenticateCookie returns who holds the cookie of a session, as [Service.Authenticate]
// does of an access token.
func (s *Service) AuthenticateCookie(cookie site.Secret) (site.Actor, error) {
	return s.authenticateCookie(cookie, false)
}

func (s *Service) authenticateCookie(cookie site.Secret, ending bool) (site.Actor, error) {
	if _, actor, ok := s.dir.bySession(idOf(sidOf(cookie)), s.clock.Now(), ending); ok {
		return actor, nil
	}
	return site.Actor{}, errToken
}

// Refresh returns a new access token, unlike every other one, for a refresh token, which
// stays good and may be used in parallel: Unauthenticated when it is unknown, malformed,
// expired or revoked. It writes nothing, so it works while storage fails.
func (s *Service) Refresh(_ context.Context, refresh site.Secret) (site.Secret, error) {
	cookie, ok := cookieOf(refresh)
	if !ok {
		return "", errToken
	}
	now := s.clock.Now()
	sid := sidOf(cookie)
	session, _, ok := s.dir.bySession(idOf(sid), now, false)
	if !ok {
		return "", errToken
	}
	return s.tokens.sign(session, sid, now)
}

// claims are what an access token states (contract, section 1): iss, sub, sid, iat
// and exp.
type claims struct {
	jwt.RegisteredClaims
	SID string `json:"sid"` // a secret, see [idOf]
}

// mint signs and verifies access tokens.
type mint struct {
	key    *atomic.Pointer[[]byte]
	issuer string
	parser *jwt.Parser
	choose jwt.Keyfunc
}

// newMint sets up the only form of token that is taken. The library by itself
// would take tokens without exp, other algorithms and unknown critical headers. The
// iat claim is not judged, because a board's clock may step.
func newMint(key []byte, issuer site.GatewayID, clock site.Clock) mint {
	m := mint{key: new(atomic.Pointer[[]byte]), issuer: string(issuer)}
	m.key.Store(&key)
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
		return *m.key.Load(), nil
	}
	return m
}

// headerNonce is the header parameter that makes every token unlike all others: the
// claims of two that are issued within one second are the same.
const headerNonce = "nonce"

// sign makes an access token of a session with that sid, which never outlives it.
func (m *mint) sign(of site.Session, sid site.Secret, issued time.Time) (site.Secret, error) {
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
		SID: sid.Reveal(),
	})
	token.Header[headerNonce] = base64.RawURLEncoding.EncodeToString(random(nonceLen))
	text, err := token.SignedString(*m.key.Load())
	if err != nil {
		return "", fmt.Errorf("signing an access token: %w", err)
	}
	return site.Secret(text), nil
}

// verified remembers tokens whose signature and form were found good, by their
// SHA-256, because an app sends the same token with every request and verifying it
// again costs a small board 0.1 ms. What can change is never remembered: expiry,
// session, account and grant are judged anew for each request. Safe for concurrent
// use.
type verified struct {
	mu    sync.RWMutex // mu guards known
	known map[[sha256.Size]byte]bearer
}

// bearer is what a good token states.
type bearer struct {
	account site.AccountID
	session site.SessionID
	expires time.Time
}

func newVerified() *verified {
	return &verified{known: make(map[[sha256.Size]byte]bearer)}
}

func (v *verified) find(sum [sha256.Size]byte) (bearer, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	b, ok := v.known[sum]
	return b, ok
}

// keep remembers a token; when there is no room, it forgets the others.
func (v *verified) keep(sum [sha256.Size]byte, b bearer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxVerified {
		clear(v.known)
	}
	v.known[sum] = b
}

// forget forgets every token.
func (v *verified) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.known)
}
