package access_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// A siege is what attackers do to the logins of others, in a bubble in which one hash
// takes 40 ms, at one slot: the times are the clock's of the bubble.
const (
	hashTime    = 40 * time.Millisecond
	siegeBefore = 5 * time.Second // how long it has lasted when a victim comes
)

// The promises of the contract, section 1.
const (
	promiseKnown = 5 * time.Second
	promiseNew   = 30 * time.Second
)

// attacker is one client that logs in again and again. n numbers its attempts.
type attacker struct {
	from     netip.Addr
	email    func(n int) string
	password site.Secret
	rest     time.Duration // after a refusal; Retry-After is not heeded
}

// always names the same account.
func always(email string) func(int) string { return func(int) string { return email } }

// anyone names another e-mail address with each attempt.
func anyone(client int) func(int) string {
	return func(n int) string { return fmt.Sprintf("u%d.%d@example.test", client, n) }
}

// many returns n attackers.
func many(n int, make func(i int) attacker) []attacker {
	out := []attacker{}
	for i := range n {
		a := make(i)
		if a.rest == 0 {
			a.rest = 200 * time.Millisecond
		}
		out = append(out, a)
	}
	return out
}

// neighbour returns the n-th address of one IPv6 network.
func neighbour(n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 7: 1, 14: byte(n >> 8), 15: byte(n)})
}

func loopback() netip.Addr { return netip.MustParseAddr("127.0.0.1") }

// sieges are the attackers of the table.
func sieges() map[string][]attacker {
	return map[string][]attacker{
		"no attacker": nil,
		"one address at the account": many(20, func(int) attacker {
			return attacker{from: address(100), email: always(porter), password: wrong}
		}),
		"63 addresses at the account": many(63, func(i int) attacker {
			return attacker{from: address(100 + i), email: always(porter), password: wrong}
		}),
		"63 addresses at any account": many(126, func(i int) attacker {
			return attacker{from: address(100 + i%63), email: anyone(i), password: wrong}
		}),
		"63 addresses of the victim's network": many(126, func(i int) attacker {
			return attacker{from: neighbour(100 + i%63), email: anyone(i), password: wrong}
		}),
		"one slow guesser for hours": many(1, func(int) attacker {
			return attacker{from: address(100), email: always(porter), password: wrong, rest: 30 * time.Second}
		}),
		"a user with the right password": many(70, func(int) attacker {
			return attacker{from: address(2), email: always(guest), password: right}
		}),
		"a user at 60 addresses": many(60, func(i int) attacker {
			return attacker{from: address(200 + i), email: always(guest), password: right}
		}),
		"this machine at the account": many(30, func(int) attacker {
			return attacker{from: loopback(), email: always(porter), password: wrong}
		}),
		"this machine at any account": many(60, func(i int) attacker {
			return attacker{from: netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}), email: anyone(i), password: wrong}
		}),
		"the victim's own address": many(30, func(int) attacker {
			return attacker{from: address(1), email: always(porter), password: wrong}
		}),
		"one IPv6 network at the account": many(200, func(i int) attacker {
			return attacker{from: inOneNetwork(i), email: always(porter), password: wrong}
		}),
		"100 addresses at any account": many(100, func(i int) attacker {
			return attacker{from: address(1000 + i), email: anyone(i), password: wrong, rest: time.Second}
		}),
		"100 addresses at the account": many(100, func(i int) attacker {
			return attacker{from: address(1000 + i), email: always(porter), password: wrong, rest: time.Second}
		}),
	}
}

// beyondNew reports whether a siege is by 64 addresses or more, which keeps new addresses out.
func beyondNew(siege string) bool {
	return siege == "100 addresses at any account" || siege == "100 addresses at the account"
}

// besideNew reports whether a siege is from the address of a new client.
func besideNew(siege, victim string) bool {
	return siege == "this machine at the account" && victim == "this machine, new"
}

// Whatever others do, the right password comes in: within 5 s from a device that is known
// for the account, also at their address, and within 30 s from a new one while fewer than
// 64 other networks try.
func TestService_Login_underAttack(t *testing.T) {
	victims := map[string]struct {
		from   netip.Addr
		within time.Duration
	}{
		"known":             {address(1), promiseKnown},
		"known elsewhere":   {address(100), promiseKnown},
		"known IPv6":        {neighbour(1), promiseKnown},
		"this machine":      {loopback(), promiseKnown},
		"this machine, new": {loopback(), promiseNew},
		"new":               {address(7), promiseNew},
		"new, IPv6":         {neighbour(7), promiseNew},
		"next door, new":    {neighbour(200), promiseNew},
	}
	for siege, attackers := range sieges() {
		for name, victim := range victims {
			if victim.within == promiseNew && beyondNew(siege) || besideNew(siege, name) {
				continue
			}
			t.Run(siege+" against "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := besieged(t)
					client := at(victim.from)
					if victim.within == promiseKnown {
						client.Device = h.device(porter, address(1)).Device
					}
					stop := h.lay(t, attackers)
					began := time.Now()
					h.insist(client, victim.within)
					t.Logf("%s", time.Since(began))
					stop()
				})
			})
		}
	}
}

// besieged is a house with slow hashes.
func besieged(t *testing.T) *house {
	t.Helper()
	h := open(t, func(c *access.Config) { c.Clock, c.HashSlots = processClock{}, 1 })
	h.WrapDerive(func(access.Derive) access.Derive {
		return func(password, salt []byte, _, _ uint32, _ uint8, _ uint32) []byte {
			<-time.After(hashTime) // in the bubble
			sum := sha256.Sum256(append(append([]byte{}, salt...), password...))
			return sum[:]
		}
	})
	h.add(porter)
	h.add(guest)
	return h
}

// lay begins a siege and returns, when it has lasted for some time, what ends it.
func (h *house) lay(t *testing.T, attackers []attacker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, a := range attackers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := h.Login(ctx, a.email(n), a.password, at(a.from))
				if fault.Is(err, fault.Throttled) {
					<-time.After(a.rest) // in the bubble
				}
			}
		})
	}
	<-time.After(siegeBefore) // in the bubble
	return func() { cancel(); all.Wait() }
}

// insist logs the porter in; when refused, again at the time that it was told.
func (h *house) insist(client access.Client, within time.Duration) {
	h.t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := h.tryOn(porter, right, client)
		if err == nil && !time.Now().After(deadline) {
			return
		}
		if !fault.Is(err, fault.Throttled) || time.Now().Add(fault.RetryAfter(err)).After(deadline) {
			h.t.Errorf("not logged in within %s: %v, come back after %s", within, err, fault.RetryAfter(err))
			return
		}
		<-time.After(fault.RetryAfter(err)) // in the bubble
	}
}
