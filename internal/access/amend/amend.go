// Package amend makes the changes of administrators: accounts, grants, stations and
// the time zone. Changes are made one at a time. Each is drafted against what is in
// memory, stored in one transaction with its records, and put into effect in memory
// once it is stored. So memory and store cannot diverge, and a change that cannot be
// stored changes nothing.
//
// It knows nothing of what is changed: packages access and station draft amendments
// and put them into effect, package sqlite stores them, and package provision changes
// a whole site at once.
package amend

import (
	"context"
	"fmt"
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
)

// Store keeps what is changed; package sqlite satisfies it.
type Store interface {
	// Amend stores all amendments with their records, or none. Errors: NotFound,
	// Conflict; all others count as Unavailable.
	Amend(ctx context.Context, amendments []site.Amendment) error
}

// Service makes changes. Safe for concurrent use.
type Service struct {
	store Store
	turn  chan struct{}            // capacity 1: holds a token while a change is made
	adopt []func([]site.Amendment) // set before the first change
}

// New returns a Service over that store.
func New(store Store) *Service { return &Service{store: store, turn: make(chan struct{}, 1)} }

// OnStored adds a function that puts stored amendments into effect in memory, and
// passes over those that are not its own. It must be called before the first Make. The
// function must return soon: no other change is made meanwhile.
func (s *Service) OnStored(adopt func([]site.Amendment)) { s.adopt = append(s.adopt, adopt) }

// Make waits for the changes before, calls draft, stores the amendments that it returns
// and puts them into effect; none are no change. Not reentrant. Errors: that of draft;
// NotFound and Conflict from the store; Unavailable when ctx ends before the turn comes,
// and when the storage fails. After an error nothing has changed. The storing does not
// end with ctx: only the answer of the store shows whether the change stands.
func (s *Service) Make(ctx context.Context, draft func() ([]site.Amendment, error)) error {
	release, err := Acquire(ctx, s.turn)
	if err != nil {
		return err
	}
	defer release()
	amendments, err := draft()
	if err != nil || len(amendments) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreDeadline+time.Duration(len(amendments)-1)*storeEach)
	defer cancel()
	if err := s.store.Amend(ctx, amendments); err != nil {
		return refusal(fmt.Errorf("storing %s: %w", amendments[0].Record.Kind, err))
	}
	for _, adopt := range s.adopt {
		adopt(amendments)
	}
	return nil
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
	case fault.Invalid, fault.NotFound, fault.Conflict:
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
