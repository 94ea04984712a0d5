package access_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// holdHashes makes every hash wait until the returned function is called.
func (h *house) holdHashes() (release func()) {
	gate := make(chan struct{})
	h.onHash(func(string) { <-gate })
	return sync.OnceFunc(func() { close(gate) })
}

// No more passwords are hashed at once than there are slots, and no more wait than
// there is room for.
func TestService_Login_slots(t *testing.T) {
	const flood = 1000
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		tokens := h.login(porter)
		var now, most atomic.Int64
		gate := make(chan struct{})
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
		if now.Load() != 2 || throttled.Load() != flood-2-access.MaxStrangers {
			t.Errorf("%d hashes at once and %d refused, want 2 and all that found no room", now.Load(), throttled.Load())
		}
		h.alive(tokens)
		close(gate)
		all.Wait()
		if most.Load() > 2 || invalid.Load() != 2+access.MaxStrangers {
			t.Errorf("%d hashes at once, %d answered", most.Load(), invalid.Load())
		}
	})
}

// The order of hashes: lanes take turns, within them accounts or networks, within those
// clients.
func TestService_Login_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.HashSlots = 1 })
		h.add(porter)
		h.add(guest)
		owner, insider, other := h.device(porter, address(1)), h.device(guest, address(2)), h.device(guest, address(2))
		var order []string
		gate := make(chan struct{})
		h.onHash(func(password string) {
			<-gate
			order = append(order, password)
		})
		var all sync.WaitGroup
		join := func(name, email string, from access.Client) {
			all.Go(func() { _ = h.tryOn(email, site.Secret(name), from) })
			synctest.Wait()
		}
		join("first", "x@example.test", at(address(99)))
		for i := range 3 {
			join(fmt.Sprint("insider ", i), guest, insider)
		}
		join("other device", guest, other)
		join("owner", porter, owner)
		for i := range 2 {
			join(fmt.Sprint("stranger ", i), porter, at(netip.MustParseAddr("fd00::1")))
			join(fmt.Sprint("same network ", i), guest, at(netip.MustParseAddr(fmt.Sprint("fd00::2", i))))
		}
		join("another network", porter, at(address(50)))
		join("another's device", porter, insider)
		close(gate)
		all.Wait()
		want := "[first insider 0 stranger 0 owner another network other device another's device insider 1 same network 0 insider 2 same network 1 stranger 1]"
		if got := fmt.Sprint(order); got != want {
			t.Errorf("the order is\n%s, want\n%s", got, want)
		}
	})
}

// A full lane makes room for a network that has less of it, and not for another client of the
// network that has most where each has one.
func TestService_Login_evicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		release := h.holdHashes()
		var all sync.WaitGroup
		var throttled, newcomer atomic.Int64
		for i := range access.MaxStrangers + 2 {
			all.Go(func() {
				if fault.Is(h.try(guest, wrong, inOneNetwork(i)), fault.Throttled) {
					throttled.Add(1)
				}
			})
			synctest.Wait()
		}
		if throttled.Load() != 0 {
			t.Fatalf("%d were refused", throttled.Load())
		}
		h.is(h.try(guest, wrong, netip.MustParseAddr("fd00::ff:1")), fault.Throttled)
		all.Go(func() { _ = h.try(porter, wrong, address(1)); newcomer.Add(1) })
		synctest.Wait()
		if throttled.Load() != 1 || newcomer.Load() != 0 {
			t.Errorf("%d were evicted, and %d newcomers refused", throttled.Load(), newcomer.Load())
		}
		all.Go(func() { _ = h.try(porter, wrong, address(1)); newcomer.Add(1) }) // which leaves both two and more
		synctest.Wait()
		if throttled.Load() != 2 || newcomer.Load() != 0 {
			t.Errorf("%d were evicted, and %d newcomers refused", throttled.Load(), newcomer.Load())
		}
		release()
		all.Wait()
	})
}

// One address has no more logins waiting than its share, though the lane has room.
func TestService_Login_share(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		release := h.holdHashes()
		var all sync.WaitGroup
		var throttled atomic.Int64
		for range 2 + access.MaxStranger + 1 { // two at the slots
			all.Go(func() {
				if fault.Is(h.try(guest, wrong, address(1)), fault.Throttled) {
					throttled.Add(1)
				}
			})
		}
		synctest.Wait()
		if throttled.Load() != 1 {
			t.Errorf("%d were refused, want the one beyond the share", throttled.Load())
		}
		release()
		all.Wait()
	})
}

// inOneNetwork returns the n-th address of one /64.
func inOneNetwork(n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 14: byte(n >> 8), 15: byte(n)})
}

// While fewer than 64 other networks try, or 32 addresses of one network, each with as many
// logins as it likes, a new address waits and is not evicted.
func TestService_Login_newAddress(t *testing.T) {
	for name, address := range map[string]func(int) netip.Addr{"many networks": address, "one network": inOneNetwork} {
		others := map[string]int{"many networks": 63, "one network": 31}[name]
		synctest.Test(t, func(t *testing.T) {
			h := open(t)
			release := h.holdHashes()
			var all sync.WaitGroup
			var waiting atomic.Int64
			flood := func() {
				for i := range others * 2 * access.MaxStranger {
					waiting.Add(1)
					all.Go(func() {
						_ = h.try(guest, wrong, address(i%others))
						waiting.Add(-1)
					})
					synctest.Wait()
				}
			}
			flood()
			answered := make(chan error, 1)
			all.Go(func() { answered <- h.try(porter, wrong, address(others)) })
			synctest.Wait()
			flood()
			if n := waiting.Load(); n != access.MaxStrangers+1 { // two are at the slots, and one is not of the flood
				t.Errorf("%s: %d of the flood wait", name, n)
			}
			select {
			case err := <-answered:
				t.Errorf("%s: it was answered with %v", name, err)
				answered <- err
			default:
			}
			release()
			all.Wait()
			h.refused(<-answered, "Invalid credentials")
		})
	}
}

// Logins that wait leave requests to others. Package httpapi handles 256 at once.
func TestService_Login_leavesRequests(t *testing.T) {
	if access.Waiting > 256/2 {
		t.Errorf("%d logins may wait", access.Waiting)
	}
}

// A client that comes while another waits has its turn before that one's second login,
// however many more of them come first.
func TestService_Login_turns_whileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.HashSlots = 1 })
		var order []string
		gate := make(chan struct{})
		h.onHash(func(password string) {
			<-gate
			order = append(order, password)
		})
		var all sync.WaitGroup
		join := func(name string, from int) {
			all.Go(func() { _ = h.try("x@example.test", site.Secret(name), address(from)) })
			synctest.Wait()
		}
		join("first", 9)
		join("a1", 1)
		join("b1", 2)
		gate <- struct{}{} // a1 has its turn
		synctest.Wait()
		join("a2", 1)
		join("a3", 1)
		join("c1", 3)
		close(gate)
		all.Wait()
		if got, want := fmt.Sprint(order), "[first a1 b1 a2 c1 a3]"; got != want {
			t.Errorf("the order is %s, want %s", got, want)
		}
	})
}

// The slot of a login goes on to those that come after the only one that waited has gone.
func TestService_Login_cancelledAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.HashSlots = 1 })
		release := h.holdHashes()
		held := make(chan error, 1)
		go func() { held <- h.try(guest, wrong, address(1)) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := h.Login(ctx, porter, wrong, at(address(2)))
			gone <- err
		}()
		synctest.Wait()
		cancel()
		h.is(<-gone, fault.Unavailable)
		release()
		h.refused(<-held, "Invalid credentials")
		h.refused(h.try(porter, wrong, address(3)), "Invalid credentials")
	})
}

func TestService_Login_cancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		release := h.holdHashes()
		var held sync.WaitGroup
		for i := range 2 {
			held.Go(func() { _ = h.try(guest, wrong, address(i)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for i := range access.MaxStrangers {
			gone.Go(func() {
				_, err := h.Login(ctx, fmt.Sprintf("u%d@example.test", i), wrong, at(address(10+i)))
				h.is(err, fault.Unavailable)
			})
		}
		synctest.Wait()
		h.is(h.try(porter, wrong, address(999)), fault.Throttled)
		cancel()
		gone.Wait()
		_, err := h.Login(ctx, porter, wrong, at(address(999)))
		h.is(err, fault.Unavailable)
		late := make(chan error, 1)
		go func() { late <- h.try(porter, wrong, address(999)) }()
		synctest.Wait() // it waits: those that were cancelled left room
		release()
		h.refused(<-late, "Invalid credentials")
		held.Wait()
	})
}

// Attempts that were let through to the queue are looked at again when their turn
// comes: guessing in parallel wins nothing.
func TestService_Login_throttlesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.AccountFailures = 2 })
		h.add(porter)
		h.hashes.Store(0)
		release := h.holdHashes()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { _ = h.try(porter, wrong, address(1)) })
		}
		synctest.Wait()
		release()
		all.Wait()
		if n := h.hashes.Load(); n != 2 {
			t.Errorf("%d passwords were tried, want 2", n)
		}
	})
}

// A throttled login does not wait for a slot.
func TestService_Login_throttledBeforeQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		h.exhaust(porter, address(1))
		release := h.holdHashes()
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() { _ = h.try(guest, wrong, address(10+i)) })
		}
		synctest.Wait()
		h.throttled(h.try(porter, wrong, address(1)), access.AccountEvery)
		release()
		all.Wait()
	})
}

// An administrator is not refused because of a flood of logins.
func TestService_SetPassword_whileFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		release := h.holdHashes()
		var all sync.WaitGroup
		for i := range access.MaxStrangers + 10 {
			all.Go(func() { _ = h.try(guest, wrong, address(i)) })
		}
		synctest.Wait()
		all.Go(func() { h.ok(h.SetPassword(context.Background(), admin(), porter, "another password")) })
		all.Go(func() {
			_, err := h.PasswordMatches(context.Background(), porter, right)
			h.ok(err)
		})
		synctest.Wait()
		release()
		all.Wait()
	})
}
