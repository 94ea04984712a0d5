package access_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
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

// exhaust fails at an account from one address until that is throttled.
func (h *house) exhaust(email string, from netip.Addr) {
	h.t.Helper()
	for range access.AccountBurst {
		h.refused(h.try(email, wrong, from), "Invalid credentials")
	}
	h.throttled(h.try(email, wrong, from), access.AccountEvery)
}

// Failures of an account count at one address, whether the account is there or not.
func TestService_Login_throttlesAccount(t *testing.T) {
	for name, email := range map[string]string{"known": porter, "unknown": guest, "malformed": "no address"} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			h.hashes.Store(0)
			h.exhaust(email, address(1))
			h.throttled(h.try(email, right, address(1)), access.AccountEvery)
			if n := h.hashes.Load(); n != access.AccountBurst {
				t.Errorf("%d passwords were hashed, want %d", n, access.AccountBurst)
			}
			h.clock.advance(access.AccountEvery - time.Millisecond)
			h.throttled(h.try(email, wrong, address(1)), time.Millisecond)
			h.clock.advance(time.Millisecond)
			h.refused(h.try(email, wrong, address(1)), "Invalid credentials")
			h.throttled(h.try(email, wrong, address(1)), access.AccountEvery)
		})
	}
}

// No number of failures from elsewhere locks an account.
func TestService_Login_failuresElsewhere(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.ok(h.SetPassword(context.Background(), admin(), porter, right))
	for i := range 3 * access.Wider {
		h.exhaust(porter, address(i))
	}
	h.ok(h.try(porter, right, address(1000)))
}

// An IPv6 network has a bound of its own for an account, half of which is left to addresses
// that have not failed lately, and which no other network has to do with.
func TestService_Login_throttlesAccountInNetwork(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.ok(h.SetPassword(context.Background(), admin(), porter, right))
	for i := range access.Wider / 2 {
		h.exhaust(porter, inOneNetwork(i))
	}
	h.ok(h.try(porter, right, inOneNetwork(1000)))
	for i := range access.AccountBurst * access.Wider / 2 {
		h.refused(h.try(porter, wrong, inOneNetwork(2000+i)), "Invalid credentials")
	}
	h.throttled(h.try(porter, right, inOneNetwork(1000)), access.AccountEvery/access.Wider)
	h.refused(h.try(guest, wrong, inOneNetwork(1000)), "Invalid credentials")
	h.ok(h.try(porter, right, address(1)))
	h.clock.advance(access.AccountEvery / access.Wider)
	h.ok(h.try(porter, right, inOneNetwork(1001)))
}

func TestService_Login_throttlesSpellingsTogether(t *testing.T) {
	h := open(t)
	h.add(porter)
	spellings := []string{porter, "PORTER@example.test", " porter@example.test", "Porter@Example.Test\t"}
	for i := range access.AccountBurst {
		h.refused(h.try(spellings[i%len(spellings)], wrong, address(1)), "Invalid credentials")
	}
	for _, spelling := range spellings {
		h.is(h.try(spelling, right, address(1)), fault.Throttled)
	}
}

func TestService_Login_throttlesAddress(t *testing.T) {
	cases := map[string]struct{ same, other string }{
		"IPv4":          {"192.0.2.1 192.0.2.1 ::ffff:192.0.2.1", "192.0.2.2"},
		"IPv6":          {"2001:db8:0:1::1", "2001:db8:0:1::2"}, // also within one network
		"link-local":    {"fe80::1%eth0", "fe80::1%wlan0"},
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

// An IPv6 network has a bound of its own. The addresses that have failed lately, however many,
// leave half of it to others.
func TestService_Login_throttlesNetwork(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.ok(h.SetPassword(context.Background(), admin(), porter, right))
	host := func(n int) netip.Addr {
		return netip.AddrFrom16([16]byte{0xfd, 1: 1, 13: byte(n >> 8), 14: byte(n), 15: 1})
	}
	n := 0
	fail := func(from netip.Addr) error {
		n++
		return h.try(fmt.Sprintf("u%d@example.test", n), wrong, from)
	}
	const half = access.AddressBurst * access.Wider / 2
	for n := range half {
		h.refused(fail(host(n/access.AddressBurst)), "Invalid credentials")
	}
	for n := range half {
		h.refused(fail(host(2000+n)), "Invalid credentials")
		h.throttled(fail(host(2000+n)), time.Duration(n+2)*access.AddressEvery/access.Wider)
	}
	h.throttled(h.try(porter, right, host(1000)), access.AddressEvery/access.Wider)
	h.ok(h.try(porter, right, address(1)))
	h.clock.advance(access.AddressEvery / access.Wider)
	h.ok(h.try(porter, right, host(1000)))
	h.clock.advance(access.FailureFresh)
	h.refused(fail(host(2000)), "Invalid credentials")
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

// The failures of a known device count for it alone, those of others at its address do not.
func TestService_Login_device(t *testing.T) {
	for name, from := range map[string]netip.Addr{
		"network": address(1), "IPv4 loopback": loopback(), "IPv6 loopback": netip.IPv6Loopback(),
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			mine, other := h.device(porter, from), h.device(porter, from)
			h.exhaust(porter, from)
			for i := range access.AddressBurst - access.AccountBurst {
				h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, from), "Invalid credentials")
			}
			h.throttled(h.try("another@example.test", wrong, from), access.AddressEvery)
			for range access.AccountBurst - 1 {
				h.refused(h.tryOn(porter, wrong, mine), "Invalid credentials")
			}
			h.ok(h.tryOn(porter, right, mine)) // which refunds them
			for range access.AccountBurst {
				h.refused(h.tryOn(porter, wrong, mine), "Invalid credentials")
			}
			h.throttled(h.tryOn(porter, right, mine), access.AccountEvery) // as a device that is not known
			h.ok(h.tryOn(porter, right, other))
			h.clock.advance(access.AccountEvery)
			h.ok(h.tryOn(porter, right, mine))
		})
	}
}

// The thief of a device's secret leaves its owner no worse than without one, and no better
// known once the owner has logged in.
func TestService_Login_stolenDevice(t *testing.T) {
	h := open(t)
	h.add(porter)
	mine := h.device(porter, address(1))
	thief := access.Client{Remote: address(2), Device: mine.Device}
	for range 2 * access.AccountBurst {
		h.refused(h.tryOn(porter, wrong, thief), "Invalid credentials") // half of them as a stranger
	}
	h.throttled(h.tryOn(porter, right, thief), access.AccountEvery)
	tokens, err := h.Login(t.Context(), porter, right, mine)
	h.ok(err)
	if tokens.Device == mine.Device {
		t.Error("the owner keeps the secret that is known to a thief")
	}
	h.exhaust(porter, address(1))
	h.ok(h.tryOn(porter, right, access.Client{Remote: address(1), Device: tokens.Device}))
}

// exhaustedAddress requires that the address may fail no more, at any account.
func (h *house) exhaustedAddress(from netip.Addr) {
	h.t.Helper()
	h.throttled(h.try("another@example.test", wrong, from), access.AddressEvery)
	h.throttled(h.try(porter, wrong, from), access.AddressEvery)
}

// knows reports whether a device is known for an account, with the failures at its address
// used up. Each call logs in where it is.
func (h *house) knows(email string, client access.Client) bool {
	h.t.Helper()
	for range access.AddressBurst {
		_ = h.try(email, wrong, client.Remote)
	}
	err := h.tryOn(email, right, client)
	if err != nil {
		h.is(err, fault.Throttled)
	}
	return err == nil
}

// A device is known for 30 days from the last login, whatever becomes of the session, also
// over a restart and after a new password, for that account alone, and by its secret alone.
func TestService_Login_knownDevice(t *testing.T) {
	h := open(t)
	porters := h.add(porter)
	h.add(guest)
	tokens := h.login(porter)
	mine := access.Client{Remote: address(9), Device: tokens.Device}
	h.ok(h.RevokeAllByRefresh(context.Background(), tokens.Refresh))
	h.ok(h.SetPassword(context.Background(), admin(), porter, right))
	if h.knows(guest, mine) || !h.knows(porter, mine) {
		t.Error("the device is known for the wrong account")
	}
	for name, shown := range map[string]site.Secret{
		"nothing": "", "another secret": tokens.Device[1:] + "x", "a text": "device", "the refresh token": tokens.Refresh, "a long text": tokens.Device + tokens.Device,
	} {
		if h.knows(porter, access.Client{Remote: mine.Remote, Device: shown}) {
			t.Errorf("%s counts as a device", name)
		}
	}
	h.restart()
	h.clock.advance(access.SessionLife - time.Second)
	h.Prune(context.Background())
	h.restart()
	if !h.knows(porter, mine) { // which makes it known again
		t.Error("the device is not known after a restart")
	}
	h.clock.advance(access.SessionLife)
	if h.knows(porter, mine) {
		t.Error("the device is known for more than 30 days")
	}
	h.Prune(context.Background())
	h.ok(h.RemoveAccount(context.Background(), admin(), porter))
	h.add(porter)
	if h.knows(porter, mine) || len(h.store.known) != 0 {
		t.Errorf("%d devices of the account that was removed (%s)", len(h.store.known), porters.ID)
	}
}

// A known device keeps its secret.
func TestService_Login_deviceStays(t *testing.T) {
	h := open(t)
	h.add(porter)
	mine := h.device(porter, address(1))
	tokens, err := h.Login(t.Context(), porter, right, mine)
	h.ok(err)
	if tokens.Device != mine.Device || len(h.store.known) != 1 {
		t.Errorf("%d devices are stored", len(h.store.known))
	}
}

// Only a bounded number of devices is known for an account. Beyond it one becomes known an
// hour, for which the one that logged in least recently is forgotten.
func TestService_Login_devicesBounded(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.ok(h.SetPassword(context.Background(), admin(), porter, right))
	first := h.device(porter, address(1))
	h.clock.advance(time.Minute)
	second := h.device(porter, address(2))
	h.clock.advance(time.Minute)
	h.ok(h.tryOn(porter, right, first))
	for i := range site.MaxLoginDevices - 2 {
		h.clock.advance(time.Minute)
		h.ok(h.try(porter, right, address(100+i)))
	}
	h.clock.advance(59 * time.Minute)
	if h.knows(porter, h.device(porter, address(3))) {
		t.Error("one more device is known within an hour")
	}
	h.clock.advance(time.Minute)
	third := h.device(porter, address(4))
	if !h.knows(porter, third) {
		t.Error("no new device is known after an hour")
	}
	if h.knows(porter, second) || !h.knows(porter, first) {
		t.Error("the wrong device is forgotten")
	}
}

// An administrator's change of the password clears every count.
func TestService_SetPassword_clearsCounts(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.exhaust(porter, address(1))
	for i := range access.AddressBurst - access.AccountBurst {
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(1)), "Invalid credentials")
	}
	mine := h.device(porter, address(2))
	for range access.AccountBurst {
		h.refused(h.tryOn(porter, wrong, mine), "Invalid credentials")
	}
	h.ok(h.SetPassword(context.Background(), admin(), porter, "another good password"))
	h.ok(h.try(porter, "another good password", address(1)))
	h.refused(h.tryOn(porter, wrong, mine), "Invalid credentials")
	h.exhaust(porter, address(2))
	h.ok(h.tryOn(porter, "another good password", mine))
}

// A client that fails seldom may log in as often as the bound of successes allows.
func TestService_Login_withinBounds(t *testing.T) {
	h := open(t)
	h.fakeHashing()
	h.add(porter)
	for range 100 {
		h.ok(h.try(porter, right, address(1)))
	}
}

// A session that is there already is not touched by someone's guessing at the account.
func TestService_Login_throttledLeavesSessions(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	h.exhaust(porter, address(2))
	h.is(h.try(porter, right, address(2)), fault.Throttled)
	h.alive(tokens)
	h.ok(h.RevokeByRefresh(context.Background(), tokens.Refresh))
	h.dead(tokens)
}

func TestService_Login_successClearsAccount(t *testing.T) {
	h := open(t)
	h.add(porter)
	for i := range 3 * access.AccountBurst {
		if i%access.AccountBurst == access.AccountBurst-1 {
			h.ok(h.try(porter, right, address(1)))
			continue
		}
		h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
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
	h.exhaustedAddress(address(7))
}

// Logins that succeed have a bound, because each is a record in the journal; they are
// no matter of other accounts, and leave some to a known device.
func TestService_Login_boundsSuccess(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.add(guest)
	h.fakeHashing()
	h.ok(h.SetPassword(context.Background(), admin(), porter, right))
	h.ok(h.SetPassword(context.Background(), admin(), guest, right))
	mine := h.device(porter, address(1))
	for i := range access.LoginBurst - 1 {
		h.ok(h.try(porter, right, address(i%100)))
	}
	h.throttled(h.try(porter, right, address(1)), access.LoginEvery)
	for range access.DeviceLogins {
		h.ok(h.tryOn(porter, right, mine))
	}
	h.throttled(h.tryOn(porter, right, mine), access.LoginEvery)
	h.ok(h.try(guest, right, address(1)))
	h.clock.advance(access.LoginEvery)
	h.ok(h.try(porter, right, address(1)))
}

// Filling the tables, which are bounded, does not free the account under attack.
func TestService_Login_throttleBounded(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.exhaust(porter, address(1))
	for i := range limit.MaxKeys + 100 {
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(100+i)), "Invalid credentials")
	}
	h.is(h.try(porter, right, address(1)), fault.Throttled)
}

// A clock that goes back (which it must not) locks nobody out for longer than the
// bucket holds.
func TestService_Login_throttleClockBack(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.exhaust(porter, address(1))
	h.clock.advance(-24 * time.Hour)
	h.throttled(h.try(porter, right, address(1)), access.AccountEvery)
	h.clock.advance(access.AccountEvery)
	h.ok(h.try(porter, right, address(1)))
}

func TestService_Login_throttledIsNotJournalled(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.exhaust(porter, address(1))
	before := len(h.store.of(site.KindLoginFailed))
	for range 100 {
		h.is(h.try(porter, wrong, address(1)), fault.Throttled)
	}
	if n := len(h.store.of(site.KindLoginFailed)) - before; n != 0 {
		t.Errorf("%d records of throttled logins", n)
	}
}

func TestService_Login_throttleConfigured(t *testing.T) {
	h := open(t, func(c *access.Config) { c.AccountFailures, c.AddressFailures = 2, 3 })
	h.add(porter)
	for range 2 {
		h.refused(h.try(porter, wrong, address(9)), "Invalid credentials")
	}
	h.throttled(h.try(porter, wrong, address(9)), access.AccountEvery)
	h.refused(h.try(guest, wrong, address(9)), "Invalid credentials")
	h.throttled(h.try("third@example.test", wrong, address(9)), access.AddressEvery)
}
