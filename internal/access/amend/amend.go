// Package amend makes the changes of administrators: accounts, grants, stations and
// the time zone. Changes are made one at a time. Each is stored in one transaction with its
// records, and put into effect in memory once it is stored. So memory and store cannot
// diverge, and a change that cannot be stored changes nothing.
//
// A change that revokes access, see [Service.Revoke], is the exception: what it revokes is
// gone from memory at once, also while storage hangs or fails. It stays pending, and is
// stored before any later change. It shares no transaction with what a store may refuse, so
// that no other part of a change can undo it.
//
// What a stored change revokes is held beside the database, by a [Slate], until the copy of the database has
// it: a damaged database is replaced by that copy, or by what is left of it, which may be older. The next
// start then revokes it again.
//
// It knows nothing of what is changed: packages access and station draft amendments
// and put them into effect, package sqlite stores them, and package provision changes
// a whole site at once.
package amend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// turnDeadline bounds the wait for the changes before.
	turnDeadline = 10 * time.Second
	// StoreDeadline bounds the transaction of a change, and storeEach adds to it for each
	// amendment: a site of a thousand stations has 30 s on a slow card.
	StoreDeadline = 10 * time.Second
	storeEach     = 20 * time.Millisecond
	// storeRetry is when a client may try again after storage failed.
	storeRetry = 5 * time.Second
	// stride is between the numbers of two revocations. A change that began before a revocation is stored
	// before it, with a number between that and the last one that is stored.
	stride = 1 << 20
)

// Store keeps what is changed; package sqlite satisfies it.
type Store interface {
	// Amend stores all amendments with their records, or none. It calls allowed, unless that
	// is nil, when the storage has just answered, directly before it stores them; its error
	// refuses them. Errors: that; NotFound, Conflict; all others count as Unavailable.
	Amend(ctx context.Context, allowed func() error, amendments []site.Amendment) error
}

// Service makes changes. Safe for concurrent use.
type Service struct {
	store   Store
	turn    chan struct{}            // capacity 1: holds a token while a change is made
	adopt   []func([]site.Amendment) // set before the first change, as are foresee and lives
	foresee []func([]site.Amendment)
	lives   func(site.Actor) bool

	mu      sync.Mutex // guards what follows, and is held while functions adopt and foresee
	pending []*revocation
	last    uint64 // the highest number of a revocation
	stored  uint64 // the highest number that is stored: the store has those up to it, and no others
	slated

	slate  Slate // nil before Resume
	copy   Copy
	report func(Held)
}

// revocation is an amendment that revokes access and has not been stored yet.
type revocation struct {
	site.Amendment
	refused error // why the store has no place for it; written while the turn is held
}

// New returns a Service over that store.
func New(store Store) *Service {
	return &Service{store: store, turn: make(chan struct{}, 1), lives: func(site.Actor) bool { return true }}
}

// Ask sets the function that reports whether an actor may still make changes. It must be
// called before the first change, and the function must return soon.
func (s *Service) Ask(lives func(site.Actor) bool) { s.lives = lives }

// Check returns an error where by may no longer make changes. A change that takes long before
// its turn comes asks it between its steps.
func (s *Service) Check(by site.Actor) error {
	if !s.lives(by) {
		return fault.New(fault.Unauthenticated, "Token is invalid")
	}
	return nil
}

// OnStored adds a function that puts stored amendments into effect in memory, and
// passes over those that are not its own. It must be called before the first change. The
// function must return soon: no other change is made meanwhile.
func (s *Service) OnStored(adopt func([]site.Amendment)) { s.adopt = append(s.adopt, adopt) }

// OnPending adds a function that revokes at once what amendments revoke that have not been
// stored. It is called, after those of OnStored, with all of them whenever they or
// what is stored change, the oldest first. As OnStored otherwise.
func (s *Service) OnPending(foresee func([]site.Amendment)) { s.foresee = append(s.foresee, foresee) }

// Make waits for the changes before, checks that by may still make changes, calls draft,
// checks again, stores the amendments that it returned and puts them into effect; none are no
// change. Not reentrant. Errors: Unauthenticated where by may not; that of draft;
// NotFound and Conflict from the store; Unavailable when ctx ends before the turn comes,
// and when the storage fails. After an error nothing has changed. The storing does not
// end with ctx: only the answer of the store shows whether the change stands.
func (s *Service) Make(ctx context.Context, by site.Actor, draft func() ([]site.Amendment, error)) error {
	older := s.waiting() // those that come later win over this change
	release, err := Acquire(ctx, s.turn)
	if err != nil {
		return err
	}
	defer release()
	if err := s.flush(ctx, older); err != nil {
		return err
	}
	if err := s.Check(by); err != nil {
		return err
	}
	amendments, err := draft()
	if err != nil || len(amendments) == 0 {
		return err
	}
	revoking := s.number(amendments)
	if err := s.write(ctx, func() error { return s.Check(by) }, amendments); err != nil {
		return err
	}
	s.settled(amendments, nil, revoking)
	if len(revoking) > 0 {
		s.save(ctx)
	}
	return nil
}

// number numbers the amendments of a change that revokes something, and returns what they revoke. The caller
// holds the turn until they are stored.
func (s *Service) number(amendments []site.Amendment) (revoking []site.Amendment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range amendments {
		a.Revocation = s.stored + 1
		if r, ok := a.Revoking(); ok {
			revoking = append(revoking, r)
		}
	}
	if len(revoking) > 0 {
		s.last = max(s.last, s.stored+1)
		for i := range amendments {
			amendments[i].Revocation = s.stored + 1
		}
	}
	return revoking
}

// Revoke makes a change whose every amendment revokes access: draft is called at once, and
// what it revokes is gone when Revoke returns, whatever it returns. Draft must only look things up.
// After Unavailable the revocations are pending: every later change, and [Service.Settle],
// tries to store them first. What the store refuses, because there is nothing left to revoke,
// keeps no other revocation from being stored. Errors as of Make.
func (s *Service) Revoke(ctx context.Context, by site.Actor, draft func() ([]site.Amendment, error)) error {
	added, err := s.foreseen(by, draft)
	if err != nil {
		return err
	}
	if err := s.Settle(ctx); err != nil {
		s.save(ctx)
		return err
	}
	for _, r := range added {
		if r.refused != nil {
			return r.refused
		}
	}
	return nil
}

// Foresee revokes as [Service.Revoke] does, and leaves the storing to the next change and to
// [Service.Settle]. Errors: Unauthenticated, and that of draft.
func (s *Service) Foresee(by site.Actor, draft func() ([]site.Amendment, error)) error {
	_, err := s.foreseen(by, draft)
	return err
}

// foreseen makes revocations pending.
func (s *Service) foreseen(by site.Actor, draft func() ([]site.Amendment, error)) (added []*revocation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Check(by); err != nil {
		return nil, err
	}
	amendments, err := draft()
	if err != nil || len(amendments) == 0 {
		return nil, err
	}
	for _, a := range amendments {
		s.last += stride
		a.Revocation = s.last
		added = append(added, &revocation{Amendment: a})
	}
	s.pending = append(s.pending, added...)
	s.update(nil)
	s.hold()
	return added, nil
}

// Settle stores what is pending, also what becomes so while it waits for its turn: many
// revocations at once share a transaction. Unavailable.
func (s *Service) Settle(ctx context.Context) error {
	release, err := Acquire(ctx, s.turn)
	if err != nil {
		return err
	}
	defer release()
	return s.flush(ctx, s.waiting())
}

// waiting returns what is pending.
func (s *Service) waiting() []*revocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pending)
}

// flush stores those of older that are still pending, in one transaction, or where the store
// refuses one of them each in its own. What it refuses is dropped. The caller holds the turn.
func (s *Service) flush(ctx context.Context, older []*revocation) error {
	defer s.save(ctx) // also where nothing is pending: the slate may not have had room before
	for {
		s.mu.Lock()
		older = slices.DeleteFunc(older, func(r *revocation) bool { return !slices.Contains(s.pending, r) })
		s.mu.Unlock()
		if len(older) == 0 {
			return nil
		}
		tried := older
		err := s.write(ctx, nil, amendments(tried))
		if err != nil && len(older) > 1 && !fault.Is(err, fault.Unavailable) {
			tried = older[:1]
			err = s.write(ctx, nil, amendments(tried))
		}
		switch {
		case fault.Is(err, fault.Unavailable):
			return err
		case err != nil:
			tried[0].refused = err
			s.settled(nil, tried, nil)
		default:
			s.settled(amendments(tried), tried, amendments(tried))
		}
	}
}

func amendments(all []*revocation) (out []site.Amendment) {
	for _, r := range all {
		out = append(out, r.Amendment)
	}
	return out
}

// write stores amendments.
func (s *Service) write(ctx context.Context, allowed func() error, amendments []site.Amendment) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreDeadline+time.Duration(len(amendments)-1)*storeEach)
	defer cancel()
	if err := s.store.Amend(ctx, allowed, amendments); err != nil {
		return refusal(fmt.Errorf("storing %s: %w", amendments[0].Record.Kind, err))
	}
	return nil
}

// settled puts stored amendments into effect; done are pending no longer, and revoking is what was
// revoked.
func (s *Service) settled(stored []site.Amendment, done []*revocation, revoking []site.Amendment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(r *revocation) bool { return slices.Contains(done, r) })
	s.update(stored)
	for _, a := range revoking {
		s.stored = max(s.stored, a.Revocation)
	}
	if len(done)+len(revoking) > 0 {
		s.uncopied = append(s.uncopied, revoking...)
		s.hold()
	}
}

// update puts stored amendments and those that are pending into effect. The caller holds
// mu.
func (s *Service) update(stored []site.Amendment) {
	for _, adopt := range s.adopt {
		adopt(stored)
	}
	for _, foresee := range s.foresee {
		foresee(amendments(s.pending))
	}
}

// Acquire takes the turn, a channel of capacity 1, after those who came before, and returns
// what releases it. Unavailable when ctx ends first, or when the others take too long.
func Acquire(ctx context.Context, turn chan struct{}) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnDeadline)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, Unavailable(err)
	}
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, Unavailable(fmt.Errorf("waiting for the change before: %w", ctx.Err()))
	}
}

// refusal keeps the kinds by which a store refuses a change.
func refusal(err error) error {
	switch fault.KindOf(err) {
	case fault.Unauthenticated, fault.Invalid, fault.NotFound, fault.Conflict:
		return err
	}
	return Unavailable(err)
}

// Unavailable returns the error of a write that err made impossible; nil for nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{
		Kind: fault.Unavailable, Sentence: "This cannot be stored now; try again", RetryAfter: storeRetry, Err: err,
	}
}
