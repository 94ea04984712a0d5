package access

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// What the tests of this package reach inside.
const (
	MaxSessions   = maxSessions
	MaxStrangers  = waitingStrangers
	MaxStranger   = maxStranger
	Wider         = wider
	LoginBurst    = loginBurst
	LoginEvery    = loginEvery
	DeviceLogins  = deviceLoginBurst
	FailureFresh  = failureFresh
	MaxHashed     = maxHashed
	MaxFailing    = maxFailing
	AccountBurst  = 10 // configured
	AccountEvery  = accountEvery
	AddressBurst  = 30 // configured
	AddressEvery  = addressEvery
	AccessLife    = accessLife
	SessionLife   = sessionLife
	FlushEvery    = flushEvery
	PruneEvery    = pruneEvery
	FailureBurst  = failureBurst
	FailureEach   = failureEach
	FailureEvery  = time.Minute // of limit.Digest
	StoreDeadline = storeDeadline
)

// Chain returns the secrets of a session, from the refresh token to the id.
func Chain(refresh site.Secret) (cookie, sid site.Secret, id site.SessionID) {
	cookie, _ = cookieOf(refresh)
	sid = sidOf(cookie)
	return cookie, sid, idOf(sid)
}

// Derive is the seam through which passwords are hashed.
type Derive = derive

// WrapDerive puts wrap around the hashing of s.
func (s *Service) WrapDerive(wrap func(Derive) Derive) { s.hashing.derive = wrap(s.hashing.derive) }

// ReadHash parses a PHC string and writes it again.
func ReadHash(text string) (params Params, again string, err error) {
	h, err := parseHash(text)
	return h.params, h.String(), err
}

// StoreRebased stores what a step has changed, as Run does.
func (s *Service) StoreRebased(ctx context.Context) error { return s.retryRebased(ctx) }

// Prune drops expired sessions, as Run does every hour.
func (s *Service) Prune(ctx context.Context) { s.prune(ctx) }

// Verified is how many tokens s remembers as verified, and how many at most.
func (s *Service) Verified() (now, most int) {
	s.verified.mu.RLock()
	defer s.verified.mu.RUnlock()
	return len(s.verified.known), maxVerified
}
