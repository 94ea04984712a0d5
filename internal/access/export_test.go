package access

import "context"

// What the tests of this package reach inside.
const (
	MaxSessions   = maxSessions
	MaxWaiting    = maxWaiting
	MaxHashed     = maxHashed
	MaxBuckets    = maxBuckets
	MaxFailing    = maxFailing
	AccountBurst  = accountBurst
	AccountEvery  = accountEvery
	AddressBurst  = addressBurst
	AddressEvery  = addressEvery
	AccessLife    = accessLife
	SessionLife   = sessionLife
	SettleEvery   = settleEvery
	PruneEvery    = pruneEvery
	FailureBurst  = failureBurst
	FailureEach   = failureEach
	FailureEvery  = failureEvery
	StoreDeadline = storeDeadline
)

// Derive is the seam through which passwords are hashed.
type Derive = derive

// WrapDerive puts wrap around the hashing of s.
func (s *Service) WrapDerive(wrap func(Derive) Derive) { s.hashing.derive = wrap(s.hashing.derive) }

// ReadHash parses a PHC string and writes it again.
func ReadHash(text string) (params Params, again string, err error) {
	h, err := parseHash(text)
	return h.params, h.String(), err
}

// Tracked gives the sizes of the tables that outsiders can fill.
func (s *Service) Tracked() (accounts, addresses, failing int) {
	s.throttle.mu.Lock()
	defer s.throttle.mu.Unlock()
	s.failures.mu.Lock()
	defer s.failures.mu.Unlock()
	return len(s.throttle.accounts.full), len(s.throttle.addresses.full), len(s.failures.since)
}

// Prune drops expired sessions, as Run does every hour.
func (s *Service) Prune(ctx context.Context) { s.prune(ctx) }

// Verified is how many tokens s remembers as verified, and how many at most.
func (s *Service) Verified() (now, most int) {
	s.verified.mu.RLock()
	defer s.verified.mu.RUnlock()
	return len(s.verified.known), maxVerified
}
