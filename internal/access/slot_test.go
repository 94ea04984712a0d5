package access_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
)

func TestService_Login_slots(t *testing.T) {
	const flood = 1000
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		tokens := h.login(porter)
		gate := make(chan struct{})
		var now, most atomic.Int64
		h.onHash(func(string) {
			most.Store(max(most.Load(), now.Add(1)))
			<-gate
			now.Add(-1)
		})
		var throttled, invalid atomic.Int64
		var all sync.WaitGroup
		for i := range flood {
			all.Go(func() {
				switch err := h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(i)); fault.KindOf(err) {
				case fault.Throttled:
					throttled.Add(1)
					if fault.RetryAfter(err) <= 0 {
						t.Error("a throttled login is not told when to come back")
					}
				case fault.Unauthenticated:
					invalid.Add(1)
				}
			})
		}
		synctest.Wait()
		if now.Load() != 2 || throttled.Load() != flood-2-access.MaxWaiting {
			t.Errorf("%d hashes at once and %d refused, want 2 and all that found no room", now.Load(), throttled.Load())
		}
		h.alive(tokens) // whoever is logged in feels nothing of it
		close(gate)
		all.Wait()
		if most.Load() > 2 || invalid.Load() != 2+access.MaxWaiting {
			t.Errorf("%d hashes at once, %d answered", most.Load(), invalid.Load())
		}
	})
}

func TestService_Login_cancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		gate := make(chan struct{})
		h.onHash(func(string) { <-gate })
		var held sync.WaitGroup
		for i := range 2 {
			held.Go(func() { _ = h.try(guest, wrong, address(i)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for i := range access.MaxWaiting {
			gone.Go(func() {
				_, err := h.Login(ctx, fmt.Sprintf("u%d@example.test", i), wrong, address(i))
				h.is(err, fault.Unavailable)
			})
		}
		synctest.Wait()
		h.is(h.try(porter, wrong, address(999)), fault.Throttled)
		cancel()
		gone.Wait()
		_, err := h.Login(ctx, porter, wrong, address(999))
		h.is(err, fault.Unavailable)
		late := make(chan error, 1)
		go func() { late <- h.try(porter, wrong, address(999)) }()
		synctest.Wait() // it waits: the places of those who left are free
		close(gate)
		h.refused(<-late, "Invalid credentials")
		held.Wait()
	})
}

// An administrator is not turned away because of a flood of logins.
func TestService_SetPassword_whileFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		gate := make(chan struct{})
		h.onHash(func(string) { <-gate })
		var all sync.WaitGroup
		for i := range access.MaxWaiting + 10 {
			all.Go(func() { _ = h.try(guest, wrong, address(i)) })
		}
		synctest.Wait()
		all.Go(func() { h.ok(h.SetPassword(context.Background(), admin(), porter, "another password")) })
		all.Go(func() {
			_, err := h.PasswordMatches(context.Background(), porter, right)
			h.ok(err)
		})
		synctest.Wait()
		close(gate)
		all.Wait()
	})
}
