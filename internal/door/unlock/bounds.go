package unlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// maxAtStation is how many of an account's commands a station receives at a time.
	// The others wait here, so that a slow station does not receive more than it
	// answers in time, and its connection, which others use, is not reset.
	maxAtStation = 2
	// pendingRetry is when an account with too many commands in flight may try again.
	pendingRetry = time.Second
	// refusalEvery is how often the refusals of one account get a record.
	refusalEvery = time.Minute
	// lookupBurst and lookupEvery bound the commands that an account looks up in the
	// journal.
	lookupBurst, lookupEvery = 20, time.Second
)

// Bounds are what one account may ask for (contract, section 1); zero switches each
// off. They hold for requests of accounts, over HTTPS by administrators too. Commands of
// the cloud have a pace of their own in package link, and those of the
// administration socket have none: its peers may do anything.
type Bounds struct {
	Rate    float64 // unlocks a second, sustained
	Burst   int     // unlocks at once
	Pending int     // under way, for one station
}

// bounds keeps what accounts ask for within Bounds, and counts what it refuses. Safe for
// concurrent use.
type bounds struct {
	mu       sync.Mutex // mu guards what follows
	are      Bounds
	rate     *throttle.Buckets[site.AccountID] // nil: unbounded
	pending  int
	uses     map[use]using
	refusals map[site.AccountID]*refusals
	lookups  *throttle.Buckets[site.AccountID]
}

// use identifies an account at a station.
type use struct {
	account site.AccountID
	station site.StationID
}

// using is what an account has in flight at a station.
type using struct {
	pending   int
	atStation int
	waiting   []chan struct{} // those that wait to be at the station; closed for their turn
}

// place is the share of the bounds that one request holds.
type place struct {
	use     use
	turn    chan struct{} // closed when it may go to the station; nil: at once
	counted bool          // whether it is among the pending
}

// refusals are those of one account since the last record.
type refusals struct {
	next  time.Time // when the next record may be written
	count int
	facts site.Facts // of the last one; without a station when they differ
}

func newBounds(b Bounds) *bounds {
	made := &bounds{
		uses: make(map[use]using), refusals: make(map[site.AccountID]*refusals),
		lookups: throttle.New[site.AccountID](lookupBurst, lookupEvery),
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
	b.are, b.pending, b.rate = to, to.Pending, nil
	if to.Rate > 0 && to.Burst > 0 {
		b.rate = throttle.New[site.AccountID](to.Burst, time.Duration(float64(time.Second)/to.Rate))
	}
}

// SetBounds changes what accounts may ask for; requests in flight are not affected.
func (s *Service) SetBounds(b Bounds) { s.bounds.set(b) }

// openWithin opens within the bounds of the account. An Idempotency-Key that has its
// answer needs no room: nothing is sent for it, and it does not wait.
func (s *Service) openWithin(ctx context.Context, req Request) (Answer, error) {
	at, err := s.bounds.enter(use{req.Actor.Account, req.Station}, req.Accepted)
	if err != nil {
		if answer, ok := s.replayed(req); ok {
			return answer, nil
		}
		s.refuse(req)
		return Answer{}, err
	}
	defer func() { s.bounds.leave(at) }()
	s.bounds.await(ctx, &at, s.deadline(req))
	if req.IdempotencyKey == "" {
		return s.open(ctx, req), nil
	}
	answer, err := s.openOnce(ctx, req)
	if answer.Replayed || err != nil {
		s.bounds.refund(at)
	}
	return answer, err
}

// enter adds a request, or returns Throttled. now is when it came.
func (b *bounds) enter(u use, now time.Time) (place, error) {
	if u.account == "" {
		return place{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	using := b.uses[u]
	if b.pending > 0 && using.pending >= b.pending {
		return place{}, fault.Throttle("Too many unlocks of this station are under way; try again", pendingRetry)
	}
	if b.rate != nil {
		if wait := b.rate.Wait(u.account, now); wait > 0 {
			return place{}, fault.Throttle("Too many unlocks; try again later", wait)
		}
		b.rate.Take(u.account, now)
	}
	at := place{use: u, counted: b.pending > 0}
	if !at.counted {
		return at, nil
	}
	using.pending++
	if using.atStation < maxAtStation {
		using.atStation++
	} else {
		at.turn = make(chan struct{})
		using.waiting = append(using.waiting, at.turn)
	}
	b.uses[u] = using
	return at, nil
}

// await waits until the request may go to the station, at most until its deadline, when
// it has expired, or until ctx ends, when its client has gone.
func (b *bounds) await(ctx context.Context, at *place, deadline time.Time) {
	if at.turn == nil {
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-at.turn:
		at.turn = nil
	case <-timer.C:
	case <-ctx.Done():
	}
}

// leave removes a request; the next one that waits for the station gets its turn.
func (b *bounds) leave(at place) {
	if !at.counted {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	using := b.uses[at.use]
	using.pending--
	if i := slices.Index(using.waiting, at.turn); at.turn != nil && i >= 0 { // it never had its turn
		using.waiting = slices.Delete(using.waiting, i, i+1)
	} else if len(using.waiting) > 0 {
		close(using.waiting[0])
		using.waiting = slices.Delete(using.waiting, 0, 1)
	} else {
		using.atStation--
	}
	if using.pending == 0 {
		delete(b.uses, at.use)
		return
	}
	b.uses[at.use] = using
}

// refund returns the token of a request for which nothing was sent.
func (b *bounds) refund(at place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate != nil && at.use.account != "" {
		b.rate.Refund(at.use.account)
	}
}

// lookup returns Throttled when an account has looked up too many commands.
func (b *bounds) lookup(account site.AccountID, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.lookups.Wait(account, now); wait > 0 {
		return fault.Throttle("Too many commands were looked up; try again later", wait)
	}
	b.lookups.Take(account, now)
	return nil
}

// refuse counts a refused request, and writes the record that is due.
func (s *Service) refuse(req Request) {
	s.Metrics.Refused("unlock-throttled")
	facts := site.ByActor(req.Actor)
	facts.Session, facts.Station = "", req.Station
	if r, due := s.bounds.refused(facts, req.Accepted); due {
		s.Journal.AppendLater(r)
	}
}

// refused counts a refusal and returns the record that is due, if one is.
func (b *bounds) refused(facts site.Facts, now time.Time) (r site.Record, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.refusals[facts.Account]
	if u == nil {
		u = &refusals{}
		b.refusals[facts.Account] = u
	}
	if u.count > 0 && u.facts.Station != facts.Station {
		facts.Station = 0
	}
	u.facts = facts
	u.count++
	if now.Before(u.next) {
		return site.Record{}, false
	}
	return u.write(now), true
}

// write returns the record of all refusals since the last one.
func (u *refusals) write(now time.Time) site.Record {
	r := site.Record{Kind: site.KindThrottled, Facts: u.facts}
	r.Detail = "more unlocks than an account may ask for; none was sent"
	if u.count > 1 {
		r.Count = u.count
	}
	u.count, u.next = 0, now.Add(refusalEvery)
	return r
}

// due returns the records of refusals that were held back for a minute, or of all.
func (b *bounds) due(now time.Time, all bool) (records []site.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for account, u := range b.refusals {
		switch {
		case u.count > 0 && (all || !now.Before(u.next)):
			records = append(records, u.write(now))
		case u.count == 0 && !now.Before(u.next):
			delete(b.refusals, account)
		}
	}
	return records
}

// Run writes the records of refused requests, at most one a minute for each account, and
// forgets expired keys once a minute. It blocks until ctx ends, writes what is left, and
// returns nil.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(refusalEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			s.replays.sweep()
		}
		for _, r := range s.bounds.due(time.Now(), ctx.Err() != nil) {
			s.Journal.AppendLater(r)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}
