package admission

import (
	"container/heap"
	"net/netip"
)

const (
	// remembered is how many shares a rota remembers that had turns and have no waiter.
	// Otherwise a client with one connection at a time would always be new.
	remembered = 1024
	// networkTurns is how many turns an IPv6 network has where an address has one: many
	// clients may share it, and one client may have all of its addresses.
	networkTurns = 64
)

// rota decides who of those that wait gets the next turn: the network that was served
// longest ago, within it the address that was served longest ago, and within that the
// newest waiter, whose client is the least likely to give up meanwhile. What was never
// served has every second turn, the one with the newest waiter first, and the others have
// the rest: so no number of new addresses keeps those of the house's stations waiting.
// A network is the /64 of an IPv6 address, and an IPv4 address itself. Not safe for
// concurrent use.
type rota struct {
	root   share
	shares map[shareKey]*share // those that wait, and those that are remembered
	idle   list[*share]        // the remembered ones, the one idle for the longest time first
	idles  int
	now    uint64 // counts arrivals and turns
	count  int    // waiters
}

type shareKey struct {
	network bool
	address netip.Addr
}

// share is what takes turns with its like: a network, an address or a waiter.
type share struct {
	key    shareKey
	parent *share
	below  [2]shares // of a network or an address: what waits, by class
	waiter *waiter
	class  int    // in parent.below
	place  int    // in parent.below[class]; -1: nothing of it waits
	quota  int    // turns that count as one
	turns  int    // that it had, as far as is remembered
	served uint64 // when it last used up its quota; 0: never
	newest uint64 // when the newest waiter of those that come first below arrived
	link   element[*share]
}

// The classes of shares.
const (
	fresh = iota // never served
	known
)

func (s *share) classNow() int {
	if s.served > 0 {
		return known
	}
	return fresh
}

// next returns what has the next turn of those below, nil where nothing waits.
func (s *share) next() *share {
	first := fresh
	if s.turns%2 == 1 {
		first = known
	}
	for _, class := range [2]int{first, 1 - first} {
		if len(s.below[class]) > 0 {
			return s.below[class][0]
		}
	}
	return nil
}

func newRota() *rota { return &rota{shares: make(map[shareKey]*share)} }

// push adds a waiter for a client at address.
func (r *rota) push(w *waiter, address netip.Addr) {
	network, quota := address, 1
	if address.Is6() {
		prefix, _ := address.Prefix(64) // fails for no IPv6 address
		network, quota = prefix.Addr().WithZone(address.Zone()), networkTurns
	}
	n := r.share(shareKey{true, network}, &r.root, quota)
	a := r.share(shareKey{false, address}, n, 1)
	r.now++
	r.count++
	w.share = share{waiter: w, parent: a, newest: r.now, place: -1}
	r.attach(&w.share)
}

// share returns the share of a key.
func (r *rota) share(key shareKey, parent *share, quota int) *share {
	s := r.shares[key]
	if s == nil {
		s = &share{key: key, quota: quota, place: -1}
		s.link.of = s
		r.shares[key] = s
	}
	s.parent = parent
	return s
}

// attach adds s to its parent, which has waiters from now on.
func (r *rota) attach(s *share) {
	p := s.parent
	s.class = s.classNow()
	heap.Push(&p.below[s.class], s)
	if p == &r.root {
		return
	}
	if p.place >= 0 {
		r.sort(p)
		return
	}
	if p.turns > 0 {
		r.idle.remove(&p.link)
		r.idles--
	}
	p.newest = s.newest
	r.attach(p)
}

// sort puts s and its parents in their places, after a change below s.
func (r *rota) sort(s *share) {
	for ; s != &r.root; s = s.parent {
		s.newest = 0
		for _, class := range s.below {
			if len(class) > 0 {
				s.newest = max(s.newest, class[0].newest)
			}
		}
		p := s.parent
		heap.Remove(&p.below[s.class], s.place)
		s.class = s.classNow()
		heap.Push(&p.below[s.class], s)
	}
}

// first returns the waiter whose turn is next, nil where nobody waits.
func (r *rota) first() *waiter {
	s := &r.root
	for s.waiter == nil {
		if s = s.next(); s == nil {
			return nil
		}
	}
	return s.waiter
}

// remove removes a waiter, who has had a turn or not.
func (r *rota) remove(w *waiter, turn bool) {
	if turn {
		r.now++
		for s := w.share.parent; s != nil; s = s.parent {
			if s.turns++; s.quota > 0 && s.turns%s.quota == 0 {
				s.served = r.now
			}
		}
	}
	r.count--
	r.detach(&w.share)
}

// detach removes s from its parent, and the parent where nothing of it waits any more.
func (r *rota) detach(s *share) {
	p := s.parent
	heap.Remove(&p.below[s.class], s.place)
	switch {
	case p == &r.root:
	case p.next() != nil:
		r.sort(p)
	default:
		r.detach(p)
		r.rest(p)
	}
}

// rest remembers a share that had turns, and forgets any other.
func (r *rota) rest(s *share) {
	s.parent = nil
	if s.turns == 0 {
		delete(r.shares, s.key)
		return
	}
	r.idle.push(&s.link)
	if r.idles++; r.idles > remembered {
		oldest := r.idle.first.of
		r.idle.remove(&oldest.link)
		r.idles--
		delete(r.shares, oldest.key)
	}
}

// shares is a heap of shares, the next to be served first. It implements
// [heap.Interface].
type shares []*share

// Len implements [heap.Interface].
func (s *shares) Len() int { return len(*s) }

// Less implements [heap.Interface].
func (s *shares) Less(i, j int) bool {
	a, b := (*s)[i], (*s)[j]
	if a.served != b.served {
		return a.served < b.served
	}
	return a.newest > b.newest
}

// Swap implements [heap.Interface].
func (s *shares) Swap(i, j int) {
	all := *s
	all[i], all[j] = all[j], all[i]
	all[i].place, all[j].place = i, j
}

// Push implements [heap.Interface].
func (s *shares) Push(x any) {
	added := x.(*share)
	added.place = len(*s)
	*s = append(*s, added)
}

// Pop implements [heap.Interface].
func (s *shares) Pop() any {
	all := *s
	last := all[len(all)-1]
	all[len(all)-1] = nil
	*s = all[:len(all)-1]
	last.place = -1
	return last
}
