package amend_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// store is a Store that a function plays.
type store func(context.Context, []site.Amendment) error

func (s store) Amend(ctx context.Context, _ func() error, all []site.Amendment) error {
	return s(ctx, all)
}

// removing drafts the removal of these stations.
func removing(ids ...site.StationID) func() ([]site.Amendment, error) {
	return func() (all []site.Amendment, err error) {
		for _, id := range ids {
			all = append(all, site.Amendment{RemoveStation: id})
		}
		return all, nil
	}
}

func removed(all []site.Amendment) (ids []site.StationID) {
	for _, a := range all {
		ids = append(ids, a.RemoveStation)
	}
	return ids
}

func TestService_Make(t *testing.T) {
	var stored, adopted, adoptedToo []site.StationID
	s := amend.New(store(func(ctx context.Context, all []site.Amendment) error {
		if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
			t.Errorf("the store is called without a deadline, or after its end: %v", ctx.Err())
		}
		stored = removed(all)
		return nil
	}))
	s.OnStored(func(all []site.Amendment) { adopted = removed(all) })
	s.OnStored(func(all []site.Amendment) { adoptedToo = removed(all) })
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Make(ctx, site.Actor{}, func() ([]site.Amendment, error) {
		cancel() // the caller has gone: the change is made all the same
		return removing(1, 2)()
	})
	if want := []site.StationID{1, 2}; err != nil || !slices.Equal(stored, want) || !slices.Equal(adopted, want) || !slices.Equal(adoptedToo, want) {
		t.Errorf("stored %v, adopted %v and %v: %v", stored, adopted, adoptedToo, err)
	}
}

func TestService_Make_refused(t *testing.T) {
	broken := errors.New("disk full")
	for name, c := range map[string]struct {
		stored, drafted error
		kind            fault.Kind
	}{
		"by the draft":  {drafted: fault.New(fault.Invalid, "wrong"), kind: fault.Invalid},
		"conflict":      {stored: fault.New(fault.Conflict, "taken"), kind: fault.Conflict},
		"not found":     {stored: fault.New(fault.NotFound, "gone"), kind: fault.NotFound},
		"slow storage":  {stored: fault.New(fault.Timeout, "slow"), kind: fault.Unavailable},
		"broken":        {stored: broken, kind: fault.Unavailable},
		"nothing to do": {stored: errors.New("the store was called"), kind: fault.KindOf(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			s := amend.New(store(func(context.Context, []site.Amendment) error { return c.stored }))
			s.OnStored(func([]site.Amendment) { t.Error("adopted") })
			err := s.Make(t.Context(), site.Actor{}, func() ([]site.Amendment, error) {
				if name == "nothing to do" {
					return nil, nil
				}
				all, _ := removing(1)()
				return all, c.drafted
			})
			if fault.KindOf(err) != c.kind || c.stored == broken && !errors.Is(err, broken) {
				t.Errorf("the error is %v of kind %v", err, fault.KindOf(err))
			}
		})
	}
}

// What is revoked is pending at once, until it is stored: before the next change, in the
// order in which it was revoked. What the store refuses is dropped.
func TestService_Revoke(t *testing.T) {
	var stored, adopted, pending []site.StationID
	broken := errors.New("disk full")
	s := amend.New(store(func(_ context.Context, all []site.Amendment) error {
		if broken == nil {
			stored = append(stored, removed(all)...)
		}
		return broken
	}))
	s.OnStored(func(all []site.Amendment) { adopted = append(adopted, removed(all)...) })
	s.OnPending(func(all []site.Amendment) { pending = removed(all) })
	want := func(inStore, waiting []site.StationID) {
		t.Helper()
		if !slices.Equal(stored, inStore) || !slices.Equal(adopted, inStore) || !slices.Equal(pending, waiting) {
			t.Errorf("stored %v, adopted %v, pending %v; want %v and %v", stored, adopted, pending, inStore, waiting)
		}
	}
	for id := range site.StationID(2) {
		if err := s.Revoke(t.Context(), site.Actor{}, removing(id+1)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the storage fails: %v", err)
		}
	}
	if err := s.Make(t.Context(), site.Actor{}, removing(3)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the storage fails: %v", err)
	}
	want(nil, []site.StationID{1, 2})
	broken = nil
	if err := s.Make(t.Context(), site.Actor{}, removing(4)); err != nil {
		t.Error(err)
	}
	want([]site.StationID{1, 2, 4}, nil)
	broken = fault.New(fault.NotFound, "gone")
	if err := s.Revoke(t.Context(), site.Actor{}, removing(5)); !fault.Is(err, fault.NotFound) {
		t.Errorf("the store refuses it: %v", err)
	}
	want([]site.StationID{1, 2, 4}, nil)
	if err := s.Settle(t.Context()); err != nil {
		t.Errorf("nothing is pending: %v", err)
	}
}

// The actor of a change must still be allowed to make it when its turn comes.
func TestService_Make_actorGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var stored []site.StationID
		s := amend.New(store(func(_ context.Context, all []site.Amendment) error {
			<-gate
			stored = append(stored, removed(all)...)
			return nil
		}))
		var gone atomic.Bool
		s.Ask(func(by site.Actor) bool { return by.Session == "" || !gone.Load() })
		done, by := make(chan error, 2), site.Actor{Session: "s"}
		go func() { done <- s.Make(t.Context(), site.Actor{}, removing(1)) }()
		synctest.Wait()
		go func() { done <- s.Make(t.Context(), by, removing(2)) }()
		synctest.Wait()
		gone.Store(true)
		close(gate)
		if first, second := <-done, <-done; first != nil || !fault.Is(second, fault.Unauthenticated) {
			t.Errorf("%v, %v", first, second)
		}
		if err := s.Revoke(t.Context(), by, removing(3)); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("revoking: %v", err)
		}
		if !slices.Equal(stored, []site.StationID{1}) {
			t.Errorf("stored %v", stored)
		}
	})
}

// Changes are made one at a time; a caller that stops waiting changes nothing.
func TestService_Make_oneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var stored []site.StationID
		s := amend.New(store(func(_ context.Context, all []site.Amendment) error {
			<-gate
			stored = append(stored, removed(all)...) // the race detector sees two at once
			return nil
		}))
		done := make(chan error, 2)
		go func() { done <- s.Make(t.Context(), site.Actor{}, removing(1)) }()
		synctest.Wait()
		go func() { done <- s.Make(t.Context(), site.Actor{}, removing(2)) }()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- s.Make(ctx, site.Actor{}, removing(3)) }()
		synctest.Wait()
		cancel()
		if err := <-gone; !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that stopped waiting got %v", err)
		}
		if err := s.Make(ctx, site.Actor{}, removing(4)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a caller that has gone got %v", err)
		}
		close(gate)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(stored, []site.StationID{1, 2}) {
			t.Errorf("stored %v", stored)
		}
	})
}

// A change waits for a store that hangs no longer than its deadline, nor for the change
// before it.
func TestService_Make_storeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := amend.New(store(func(ctx context.Context, _ []site.Amendment) error { <-ctx.Done(); return ctx.Err() }))
		begun := time.Now()
		large := make([]site.StationID, 1001)
		if err := s.Make(context.Background(), site.Actor{}, removing(large...)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("a site of a thousand stations has %s", took)
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Make(context.Background(), site.Actor{}, removing(large...)) }()
		synctest.Wait()
		begun = time.Now()
		if err := s.Make(context.Background(), site.Actor{}, removing(1)); !fault.Is(err, fault.Unavailable) || time.Since(begun) != 10*time.Second {
			t.Errorf("after %s the next change gets %v", time.Since(begun), err)
		}
		<-done
	})
}
