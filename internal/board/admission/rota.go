package admission

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

const (
	// remembered is how many clients a rota remembers that had turns and do not wait; with
	// more it forgets them all. Otherwise a client with one connection at a time would
	// always be new.
	remembered = 1024
	// networkTurns is how many turns an IPv6 network has where an address has one: many
	// clients may share it, and one client may have all of its addresses.
	networkTurns = 64
)

// rota orders the waiters: first comes the network that was served longest ago, within
// it the address that was served longest ago, and of that the newest waiter, whose client
// is the least likely to have left. What was never served has every second turn, the one
// with the newest waiter first, and the others have the rest: so no number of new
// addresses keeps those of the house's stations waiting. A network is the /64 of an IPv6
// address, and an IPv4 address itself. Not safe for concurrent use.
type rota struct {
	waiting []*waiter
	shares  map[shareKey]*share // those that have waiters, and those that are remembered
	turns   int                 // that all had
	now     uint64              // counts arrivals and turns
}

type shareKey struct {
	network bool
	address netip.Addr
}

// share is what a network or an address had of the turns.
type share struct {
	key     shareKey
	waiters int
	quota   int    // turns that count as one
	turns   int    // that it had, as far as is remembered
	served  uint64 // when it last used up its quota; 0: never
}

func newRota() *rota { return &rota{shares: make(map[shareKey]*share)} }

// push adds a waiter for a client at address.
func (r *rota) push(w *waiter, address netip.Addr) {
	network, quota := address, 1
	if address.Is6() {
		prefix, _ := address.Prefix(64) // fails for no IPv6 address
		network, quota = prefix.Addr().WithZone(address.Zone()), networkTurns
	}
	r.now++
	w.network, w.address = r.share(shareKey{true, network}, quota), r.share(shareKey{false, address}, 1)
	w.arrived, w.waits = r.now, true
	r.waiting = append(r.waiting, w)
}

// share returns the share of a key, with one waiter more.
func (r *rota) share(key shareKey, quota int) *share {
	s := r.shares[key]
	if s == nil {
		s = &share{key: key, quota: quota}
		r.shares[key] = s
	}
	s.waiters++
	return s
}

// first returns the waiter whose turn is next, nil if there is none. It looks at every
// waiter, which takes a fraction of the time of a handshake.
func (r *rota) first() *waiter {
	var first *waiter
	for _, w := range r.waiting {
		if first == nil || precedes(w, first, w.network, first.network, r.turns) {
			first = w
		}
	}
	if first == nil {
		return nil
	}
	network := first.network
	for _, w := range r.waiting {
		if w.network == network && precedes(w, first, w.address, first.address, network.turns) {
			first = w
		}
	}
	return first
}

// precedes reports whether waiter v, which belongs to share a, comes before w, which
// belongs to share b; turns is how many turns the shares of both had.
func precedes(v, w *waiter, a, b *share, turns int) bool {
	if served := a.served > 0; served != (b.served > 0) {
		return served == (turns%2 == 1)
	}
	return cmp.Or(cmp.Compare(a.served, b.served), cmp.Compare(w.arrived, v.arrived)) < 0
}

// remove removes a waiter, which has had its turn or not.
func (r *rota) remove(w *waiter, turn bool) {
	at := slices.Index(r.waiting, w)
	r.waiting = slices.Delete(r.waiting, at, at+1)
	w.waits = false
	r.now++
	if turn {
		r.turns++
	}
	for _, s := range [...]*share{w.network, w.address} {
		if turn {
			if s.turns++; s.turns%s.quota == 0 {
				s.served = r.now
			}
		}
		if s.waiters--; s.waiters == 0 && s.turns == 0 {
			delete(r.shares, s.key)
		}
	}
	if len(r.shares) > remembered+2*len(r.waiting) {
		maps.DeleteFunc(r.shares, func(_ shareKey, s *share) bool { return s.waiters == 0 })
	}
}
