package access

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/access/token"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

const (
	// storeDeadline bounds each call of the Store.
	storeDeadline = 10 * time.Second
	// pruneEvery is how often expired sessions are dropped.
	pruneEvery = time.Hour
	// flushEvery is how often writes that failed are tried again, and how often
	// failed logins that share a record are written.
	flushEvery = time.Minute
	// minKey is the shortest HMAC key taken: the output size of SHA-256 (RFC 7518,
	// section 3.2).
	minKey = 32
)

// Config is what a [Service] needs: all of it, but for HashSlots.
type Config struct {
	Store     Store
	Changes   *amend.Service // makes the changes of administrators
	Clock     site.Clock
	Key       []byte         // HMAC key of access tokens: 32 bytes or more; copied
	Issuer    site.GatewayID // the iss claim of access tokens
	Params    Params         // of new password hashes
	Logger    *slog.Logger
	Metrics   *metric.Registry
	Zone      *time.Location // in which the hours of grants are meant; nil: time.Local
	HashSlots int            // passwords hashed at once; below 1: one fewer than there are processors, at least 1

	// How many failed logins an account may have at once at one address, and an address
	// for all accounts, before they have to wait.
	AccountFailures, AddressFailures int
}

// Format implements [fmt.Formatter]: a Config holds a key, so it never prints.
func (Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "access.Config") }

// MarshalText implements [encoding.TextMarshaler] for the same reason.
func (Config) MarshalText() ([]byte, error) { return []byte("access.Config"), nil }

// Service decides who may. Safe for concurrent use.
type Service struct {
	store    Store
	changes  *amend.Service
	clock    site.Clock
	log      *slog.Logger
	metrics  *metric.Registry
	tokens   mint
	verified *verified
	hashing  hashing
	attempts *attempts
	failures *failures
	dir      *directory
	apps     *token.Service
	soon     chan struct{} // capacity 1: see [Service.storeSoon]
}

// Format implements [fmt.Formatter]: a Service holds keys and hashes, so it never
// prints.
func (Service) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "access.Service") }

// New loads everything from cfg.Store and returns a Service that is ready to use.
// It starts nothing; see [Service.Run]. It refuses a configuration that would be
// unsafe: a key below 32 bytes, hash parameters out of bounds.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if len(cfg.Key) < minKey {
		return nil, fmt.Errorf("the key of access tokens has %d bytes; it needs %d", len(cfg.Key), minKey)
	}
	if err := cfg.Params.check(); err != nil {
		return nil, err
	}
	if cfg.HashSlots < 1 {
		cfg.HashSlots = max(runtime.GOMAXPROCS(0)-1, 1) // doors need one, too
	}
	loaded, err := cfg.Store.LoadAccess(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading who may: %w", err)
	}
	s := &Service{
		store:    cfg.Store,
		changes:  cfg.Changes,
		clock:    cfg.Clock,
		log:      cfg.Logger,
		metrics:  cfg.Metrics,
		tokens:   newMint(slices.Clone(cfg.Key), cfg.Issuer, cfg.Clock),
		verified: newVerified(),
		hashing:  newHashing(cfg.Params, cfg.HashSlots, cfg.Key),
		attempts: newAttempts(cfg.AccountFailures, cfg.AddressFailures),
		failures: newFailures(),
		dir:      newDirectory(loaded, cfg.Logger),
		apps:     token.New(loaded.Tokens, cfg.Changes, cfg.Clock),
		soon:     make(chan struct{}, 1),
	}
	s.SetZone(cfg.Zone)
	s.changes.Ask(s.Lives)
	s.changes.OnStored(s.applyStored)
	s.changes.OnPending(s.applyPending)
	s.metrics.Gauge("gatehouse_sessions", func() float64 { return float64(s.SessionCount()) })
	return s, nil
}

// Tokens returns the service of the integration tokens.
func (s *Service) Tokens() *token.Service { return s.apps }

// Run drops expired sessions every hour, stores what a step of the clock has changed, and
// every minute retries what the store did not accept. It blocks until ctx ends, retries
// once more, and returns nil.
func (s *Service) Run(ctx context.Context) error {
	flush, prune := time.NewTicker(flushEvery), time.NewTicker(pruneEvery)
	defer flush.Stop()
	defer prune.Stop()
	_ = s.changes.Settle(ctx) // revocations of before a restart; retried below
	for {
		select {
		case <-ctx.Done():
			s.flush(ctx)
			return nil
		case <-flush.C:
			s.flush(ctx)
		case <-s.soon:
			s.flush(ctx)
		case <-prune.C:
			s.prune(ctx)
		}
	}
}

// storeSoon has [Service.Run] write what is known in memory alone. It does not wait.
func (s *Service) storeSoon() {
	select {
	case s.soon <- struct{}{}:
	default: // Run is about to
	}
}

// flush writes what is known in memory and not yet in the store. When the process
// is about to end, nothing is held back any longer, and it stops at the first
// failure.
func (s *Service) flush(ctx context.Context) {
	last := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	writeFailures := func(ctx context.Context) error { return s.writeFailures(ctx, last) }
	for _, write := range []func(context.Context) error{s.changes.Settle, s.retryRebased, writeFailures} {
		if err := write(ctx); err != nil {
			s.log.Warn("storage does not take what is to be stored of access", "error", err)
			if last {
				return
			}
		}
	}
	if uses := s.uses(); last && len(uses.Tokens)+len(uses.Sessions) > 0 {
		s.prune(ctx)
	}
}

// uses returns the uses that the store does not have yet.
func (s *Service) uses() site.Uses {
	return site.Uses{Tokens: s.apps.Uses(), Sessions: s.dir.uses()}
}

// prune drops expired sessions. What was rebased must reach the store first, or
// the store would drop it by its old expiry. The same transaction stores when integration
// tokens and sessions were used, so that this costs a memory card next to nothing.
func (s *Service) prune(ctx context.Context) {
	now := s.clock.Now()
	s.dir.dropExpired(now)
	uses := s.uses()
	err := s.retryRebased(ctx)
	if err == nil {
		err = s.write(ctx, "dropping expired sessions", func(ctx context.Context) error {
			return s.store.DropExpired(ctx, now, uses)
		})
	}
	if err != nil {
		s.log.Warn("expired sessions stay in storage for now", "error", err)
		return
	}
	s.apps.UsesStored(uses.Tokens)
	s.dir.usesStored(uses.Sessions)
}

// write makes one call of the store, whose every error is Unavailable. It outlives
// its caller, because a write with an unknown end would let memory and store
// differ, but not its own deadline.
func (s *Service) write(ctx context.Context, doing string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeDeadline)
	defer cancel()
	return unavailable(doing, call(ctx))
}

// unavailable returns the error of a write that err made impossible; nil for nil.
func unavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	return amend.Unavailable(fmt.Errorf("%s: %w", doing, err))
}

// change is the record of a change that by made to an account.
func change(by site.Actor, kind site.Kind, account site.Account, detail string) site.Record {
	return site.Record{Kind: kind, Facts: site.Facts{
		Origin: by.Origin, By: cmp.Or(by.Name, string(by.Email)), Account: account.ID, Email: account.Email, Detail: detail,
	}}
}
