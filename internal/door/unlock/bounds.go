package unlock

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// maxAtStation is how many of an account's commands a station receives at a time.
	// The others wait here, so that a slow station does not receive more than it
	// answers in time, and its connection, which others use, is not reset.
	maxAtStation = 2
	// pendingRetry is when an account with too many commands in flight may try again.
	pendingRetry = time.Second
)

// Bounds are what one account may ask for (contract, section 1), none below zero; zero
// switches each off. They hold for requests of accounts, over HTTPS by administrators too.
// Commands of the cloud have a pace of their own in package link, and those of the
// administration socket have none: its peers may do anything.
type Bounds struct {
	Rate    float64 // unlocks a second, sustained
	Burst   int     // unlocks at once
	Pending int     // in flight for one station
}

// bounds keeps what accounts ask for within Bounds, and counts what it refuses. Safe for
// concurrent use.
type bounds struct {
	refusals *limit.Digest[site.AccountID]

	mu   sync.Mutex // mu guards what follows
	are  Bounds
	rate *limit.Buckets[site.AccountID] // nil: unbounded
	uses map[use]*using
}

// use identifies an account at a station.
type use struct {
	account site.AccountID
	station site.StationID
}

// using is what an account has in flight at a station. The zero one counts nothing.
type using struct {
	use       use
	pending   int           // guarded by mu of bounds
	atStation chan struct{} // capacity maxAtStation: holds a token for each that may go to the station; nil: unbounded
}

func newBounds(b Bounds) *bounds {
	made := &bounds{
		uses:     make(map[use]*using),
		refusals: limit.NewDigest[site.AccountID](limit.MaxKeys),
	}
	made.set(b)
	return made
}

func (b *bounds) set(to Bounds) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if to == b.are {
		return
	}
	b.are, b.rate = to, nil
	if to.Rate != 0 && to.Burst != 0 {
		b.rate = limit.NewBuckets[site.AccountID](to.Burst, time.Duration(float64(time.Second)/to.Rate))
	}
}

// SetBounds changes what accounts may ask for; requests in flight are not affected.
func (s *Service) SetBounds(b Bounds) { s.bounds.set(b) }

// openWithin opens within the bounds of the account. An Idempotency-Key that has its
// answer needs no room: nothing is sent for it, and it does not wait.
func (s *Service) openWithin(ctx context.Context, req Request) (Answer, error) {
	if answer, ok := s.replayed(req); ok {
		return answer, nil
	}
	u, err := s.bounds.enter(use{req.Actor.Account, req.Station}, req.Accepted)
	if err != nil {
		s.refuse(req)
		return Answer{}, err
	}
	defer s.bounds.leave(u)
	req.stay = u.await(ctx, s.deadline(req))
	defer req.stay.end()
	if req.IdempotencyKey == "" {
		return s.open(ctx, req), nil
	}
	return s.openOnce(ctx, req)
}

// enter adds a request, or returns Throttled. now is when it came.
func (b *bounds) enter(of use, now time.Time) (u *using, err error) {
	if of.account == "" {
		return &using{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u = &using{}
	if b.are.Pending > 0 {
		u = cmp.Or(b.uses[of], &using{use: of, atStation: make(chan struct{}, maxAtStation)})
		if u.pending >= b.are.Pending {
			return nil, fault.Throttle("Too many unlocks of this station are under way; try again", pendingRetry)
		}
	}
	if b.rate != nil {
		if wait := b.rate.Wait(of.account, now); wait > 0 {
			return nil, fault.Throttle("Too many unlocks; try again later", wait)
		}
		b.rate.Take(of.account, now)
	}
	if u.atStation != nil {
		u.pending++
		b.uses[of] = u
	}
	return u, nil
}

// await waits until the request may go to the station, at most until its deadline, when
// it has expired, or until ctx ends, when its client has gone. It returns its stay there, nil
// where that has no bound.
func (u *using) await(ctx context.Context, deadline time.Time) *stay {
	if u.atStation == nil {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case u.atStation <- struct{}{}:
		return &stay{at: u.atStation}
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// stay is the place of a request among those that a station receives. A command whose connection
// has ended leaves it: it does not hold up those that go by the next one.
type stay struct {
	at   chan struct{}
	over atomic.Bool
}

func (s *stay) end() {
	if s != nil && !s.over.Swap(true) {
		<-s.at
	}
}

// leave removes a request.
func (b *bounds) leave(u *using) {
	if u.atStation == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.pending--; u.pending == 0 {
		delete(b.uses, u.use)
	}
}

// refuse counts a refused request, and writes the record that is due.
func (s *Service) refuse(req Request) {
	s.Metrics.Refused("unlock-throttled")
	facts := site.ByActor(req.Actor)
	facts.Session, facts.Station = "", req.Station
	if facts, due := s.bounds.refusals.Note(facts.Account, facts, req.Accepted); due {
		s.recordRefusals(facts)
	}
}

func (s *Service) recordRefusals(facts site.Facts) {
	facts.Detail = "more unlocks than an account may ask for; none was sent"
	s.Journal.AppendLater(site.Record{Kind: site.KindThrottled, Facts: facts})
}

// Run writes the records of refused requests, at most one a minute for each account, or for
// each account and station, and forgets expired keys once a minute. It blocks until ctx ends, writes what is left, and
// returns nil.
func (s *Service) Run(ctx context.Context) error {
	var refusals sync.WaitGroup
	refusals.Go(func() { s.bounds.refusals.Run(ctx, s.recordRefusals) })
	refusals.Go(func() { s.denials.Run(ctx, s.recordDenials) })
	defer refusals.Wait()
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.replays.sweep()
		}
	}
}
