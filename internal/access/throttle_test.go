package access_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// throttled requires a Throttled error with that time to wait.
func (h *house) throttled(err error, wait time.Duration) {
	h.t.Helper()
	h.is(err, fault.Throttled)
	if got := fault.RetryAfter(err); got != wait {
		h.t.Errorf("come back after %v, want %v", got, wait)
	}
}

func TestService_Login_throttlesAccount(t *testing.T) {
	for name, email := range map[string]string{"known": porter, "unknown": guest, "malformed": "no address"} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			h.hashes.Store(0)
			for i := range access.AccountBurst {
				h.refused(h.try(email, wrong, address(i)), "Invalid credentials")
			}
			h.throttled(h.try(email, wrong, address(100)), access.AccountEvery)
			h.throttled(h.try(email, right, address(101)), access.AccountEvery)
			if n := h.hashes.Load(); n != access.AccountBurst {
				t.Errorf("%d passwords were hashed, want %d", n, access.AccountBurst)
			}
			h.clock.advance(access.AccountEvery - time.Millisecond)
			h.throttled(h.try(email, wrong, address(102)), time.Millisecond)
			h.clock.advance(time.Millisecond)
			h.refused(h.try(email, wrong, address(103)), "Invalid credentials")
			h.throttled(h.try(email, wrong, address(104)), access.AccountEvery)
		})
	}
}

func TestService_Login_throttlesSpellingsTogether(t *testing.T) {
	h := open(t)
	h.add(porter)
	spellings := []string{porter, "PORTER@example.test", " porter@example.test", "Porter@Example.Test\t"}
	for i := range access.AccountBurst {
		h.refused(h.try(spellings[i%len(spellings)], wrong, address(i)), "Invalid credentials")
	}
	for i, spelling := range spellings {
		h.is(h.try(spelling, right, address(100+i)), fault.Throttled)
	}
}

func TestService_Login_throttlesAddress(t *testing.T) {
	cases := map[string]struct{ same, other string }{
		"IPv4":          {"192.0.2.1 192.0.2.1 ::ffff:192.0.2.1", "192.0.2.2"},
		"IPv6 by /64":   {"2001:db8:0:1::1 2001:db8:0:1::2 2001:db8:0:1:ffff::", "2001:db8:0:2::1"},
		"loopback":      {"127.0.0.1", "127.0.0.2"},
		"link-local":    {"fe80::1%eth0 fe80::2%wlan0", "fe80:0:0:1::1"},
		"none is known": {"invalid", "192.0.2.1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			same := addresses(c.same)
			for i := range access.AddressBurst {
				h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, same[i%len(same)]), "Invalid credentials")
			}
			for _, from := range same {
				h.throttled(h.try(porter, right, from), access.AddressEvery)
			}
			h.ok(h.try(porter, right, addresses(c.other)[0]))
			h.clock.advance(access.AddressEvery)
			h.ok(h.try(porter, right, same[0]))
			h.refused(h.try(guest, wrong, same[0]), "Invalid credentials") // a good login cost nothing
			h.throttled(h.try(guest, wrong, same[0]), access.AddressEvery)
		})
	}
}

// addresses reads addresses; what is none becomes the invalid address.
func addresses(text string) []netip.Addr {
	var out []netip.Addr
	for len(text) > 0 {
		var word string
		if n, _ := fmt.Sscan(text, &word); n == 0 {
			break
		}
		text = text[len(word):]
		if len(text) > 0 {
			text = text[1:]
		}
		a, _ := netip.ParseAddr(word)
		out = append(out, a)
	}
	return out
}

// Whoever is logged in is not touched by someone's guessing at the account.
func TestService_Login_throttledLeavesSessions(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	for i := range access.AccountBurst {
		h.refused(h.try(porter, wrong, address(1+i%2)), "Invalid credentials")
	}
	h.is(h.try(porter, right, address(1)), fault.Throttled)
	h.alive(tokens)
	h.ok(h.RevokeByRefresh(context.Background(), tokens.Refresh))
	h.dead(tokens)
}

func TestService_Login_successClearsAccount(t *testing.T) {
	h := open(t)
	h.add(porter)
	for i := range 3 * access.AccountBurst {
		if i%access.AccountBurst == access.AccountBurst-1 {
			h.ok(h.try(porter, right, address(i)))
			continue
		}
		h.refused(h.try(porter, wrong, address(i)), "Invalid credentials")
	}
}

// A good login of the attacker's own account does not pay for guessing at others.
func TestService_Login_successKeepsAddress(t *testing.T) {
	h := open(t)
	h.add(porter)
	for i := range access.AddressBurst {
		h.ok(h.try(porter, right, address(7)))
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(7)), "Invalid credentials")
	}
	h.is(h.try(porter, right, address(7)), fault.Throttled)
}

// Attempts that were let through to the queue are looked at again when their turn
// comes: guessing in parallel wins nothing.
func TestService_Login_throttlesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		h.hashes.Store(0)
		gate := make(chan struct{})
		h.onHash(func(string) { <-gate })
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() { _ = h.try(porter, wrong, address(i)) })
		}
		synctest.Wait()
		close(gate)
		all.Wait()
		if n := h.hashes.Load(); n != access.AccountBurst {
			t.Errorf("%d passwords were tried, want %d", n, access.AccountBurst)
		}
	})
}

// Whoever is throttled takes no place in the queue for a slot.
func TestService_Login_throttledBeforeQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		for i := range access.AccountBurst {
			h.refused(h.try(porter, wrong, address(i)), "Invalid credentials")
		}
		gate := make(chan struct{})
		h.onHash(func(string) { <-gate })
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() { _ = h.try(guest, wrong, address(i)) })
		}
		synctest.Wait()
		var answered atomic.Bool
		all.Go(func() {
			h.throttled(h.try(porter, wrong, address(99)), access.AccountEvery)
			answered.Store(true)
		})
		synctest.Wait()
		if !answered.Load() {
			t.Error("a throttled login waits")
		}
		close(gate)
		all.Wait()
	})
}

// The tables are bounded, and filling them does not free the account under attack.
func TestService_Login_throttleBounded(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	for i := range access.AccountBurst {
		h.refused(h.try(porter, wrong, address(i)), "Invalid credentials")
	}
	for i := range access.MaxBuckets + 100 {
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(100+i)), "Invalid credentials")
	}
	accounts, addresses, failing := h.Tracked()
	if accounts != access.MaxBuckets || addresses != access.MaxBuckets || failing > access.MaxFailing+1 {
		t.Errorf("%d accounts, %d addresses and %d failing addresses are tracked", accounts, addresses, failing)
	}
	h.is(h.try(porter, right, address(1)), fault.Throttled)
}

// A clock that goes back (which it must not) does not lock anyone out for longer
// than the bucket holds.
func TestService_Login_throttleClockBack(t *testing.T) {
	h := open(t)
	h.add(porter)
	for i := range access.AccountBurst {
		h.refused(h.try(porter, wrong, address(i)), "Invalid credentials")
	}
	h.clock.advance(-24 * time.Hour)
	err := h.try(porter, right, address(99))
	h.throttled(err, access.AccountEvery)
}

func TestService_Login_throttledIsNotJournalled(t *testing.T) {
	h := open(t)
	h.add(porter)
	for i := range access.AccountBurst {
		h.refused(h.try(porter, wrong, address(i)), "Invalid credentials")
	}
	before := len(h.store.of(site.KindLoginFailed))
	for i := range 100 {
		h.is(h.try(porter, wrong, address(100+i)), fault.Throttled)
	}
	if n := len(h.store.of(site.KindLoginFailed)) - before; n != 0 {
		t.Errorf("%d records of throttled logins", n)
	}
}

func TestService_Login_throttleConfigured(t *testing.T) {
	h := open(t, func(c *access.Config) { c.AccountFailures, c.AddressFailures = 2, 3 })
	h.add(porter)
	for i := range 2 {
		h.refused(h.try(porter, wrong, address(i)), "Invalid credentials")
	}
	h.throttled(h.try(porter, wrong, address(5)), access.AccountEvery)
	for i := range 3 {
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(9)), "Invalid credentials")
	}
	h.throttled(h.try(guest, wrong, address(9)), access.AddressEvery)
}
