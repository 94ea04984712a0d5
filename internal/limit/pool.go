package limit

import (
	"cmp"
	"errors"
	"net/netip"
	"sync"
)

// Limits bound what a [Pool] holds. 0 is no bound.
type Limits struct {
	Total      int // slots in all
	PerAddress int // slots of one client address; loopback has no bound of its own
	Unfinished int // slots at stage Unfinished
	Resting    int // slots that are not at stage Working
}

// Why a pool refuses a newcomer.
var (
	// ErrTotal: every slot is taken, and every holder of one is working.
	ErrTotal = errors.New("no slot is free")
	// ErrAddress: the same among the slots of the newcomer's address.
	ErrAddress = errors.New("no slot of this address is free")
)

// Stage is how far the holder of a slot has come. It decides who is evicted first.
type Stage uint8

const (
	// Unfinished has not completed its handshake, header, CONNECT or body, or does not
	// take its answer. It is the first to be evicted.
	Unfinished Stage = iota
	// Idle has finished and asks for nothing at present. It is evicted where nothing is
	// unfinished, the longest idle first.
	Idle
	// Working is never evicted.
	Working
)

// Holder holds a [Slot].
type Holder interface {
	// Evict ends the holder, because a newcomer has its slot. It is called at most once
	// for each Enter, by the newcomer's goroutine, and must not block.
	Evict()
}

// A network, or an address of it, loses a slot first if it holds more than one part in so
// many of all that can be evicted. Below that no one can be blamed: a house behind one
// address may hold more than each of many addresses of one attacker, but its clients finish
// in milliseconds, so that the oldest slots are not theirs.
const (
	networkShare = 8
	addressShare = 2
)

// Pool holds a bounded number of slots. A newcomer to a full pool is admitted at once. It
// evicts the oldest unfinished slot, else the longest idle, of the network that holds most,
// or of all where no network holds an eighth; within a network an address that holds more
// than half of it loses first. A newcomer whose address is at its bound evicts from that. An
// eviction looks at each slot. Safe for concurrent use.
type Pool struct {
	limits Limits

	mu        sync.Mutex // mu guards what follows, and what is in each Slot
	slots     []*Slot
	all       *group
	networks  map[netip.Addr]*group
	addresses map[netip.Addr]*group
	now       uint64 // counts changes
}

// group counts the slots of a pool, a network or an address.
type group [Working + 1]int

// upTo returns how many slots of the group are at a stage or before it.
func (g *group) upTo(stage Stage) (n int) {
	for _, held := range g[:stage+1] {
		n += held
	}
	return n
}

// NewPool returns an empty pool.
func NewPool(limits Limits) *Pool {
	return &Pool{limits: limits, all: new(group), networks: make(map[netip.Addr]*group), addresses: make(map[netip.Addr]*group)}
}

// Slot is one slot of a pool, or outside of any, as the zero Slot is: there its methods do
// nothing. It may be entered again after it was left. Safe for concurrent use; not to be
// copied.
type Slot struct {
	pool    *Pool  // set by the first Enter
	holder  Holder // nil: outside
	address netip.Addr
	groups  [3]*group // the pool, the network, the address
	at      int       // index in the slots of the pool
	base    Stage     // as last set by Move
	stage   Stage     // what counts: Working while holds > 0, else base
	since   uint64    // when that was set
	holds   int
}

// Enter acquires a slot for h at stage Unfinished, and evicts a holder if there is no room.
// s must be outside. It returns ErrTotal or ErrAddress if none can be evicted.
func (p *Pool) Enter(s *Slot, address netip.Addr, h Holder) error {
	p.mu.Lock()
	out, err := p.makeRoom(address)
	if err == nil {
		network := groupOf(p.networks, Network(address))
		*s = Slot{
			pool: p, holder: h, address: address, at: len(p.slots),
			groups: [3]*group{p.all, network, groupOf(p.addresses, address)},
		}
		p.slots = append(p.slots, s)
		s.count(1)
		s.restage()
	}
	p.mu.Unlock()
	for _, h := range out {
		h.Evict()
	}
	return err
}

func groupOf(groups map[netip.Addr]*group, key netip.Addr) *group {
	g := groups[key]
	if g == nil {
		g = new(group)
		groups[key] = g
	}
	return g
}

// reserved is how many slots of a pool are for loopback alone when every holder is working,
// so that local programs and the administrator get in.
func (p *Pool) reserved() int { return max(4, p.limits.Total/16) }

// makeRoom removes holders for a newcomer at address, and returns them; mu is held.
func (p *Pool) makeRoom(address netip.Addr) (out []Holder, err error) {
	evict := func(s *Slot) bool {
		if s == nil {
			return false
		}
		out = append(out, s.holder)
		p.remove(s)
		return true
	}
	own := p.addresses[address]
	bounded := p.limits.PerAddress > 0 && address.IsValid() && !address.IsLoopback()
	if bounded && own != nil && own.upTo(Working) >= p.limits.PerAddress && !evict(p.first(own, 2, Idle)) {
		return nil, ErrAddress
	}
	if p.limits.Unfinished > 0 && p.all.upTo(Unfinished) >= p.limits.Unfinished {
		evict(p.next(Unfinished))
	}
	for p.limits.Resting > 0 && p.all.upTo(Idle) >= p.limits.Resting && evict(p.next(Idle)) {
		continue
	}
	most := p.limits.Total
	if address.IsLoopback() {
		most += p.reserved()
	}
	// Loopback may hold more than the total; one for one is enough.
	if p.limits.Total <= 0 || len(p.slots) < p.limits.Total || len(out) > 0 || evict(p.next(Idle)) || len(p.slots) < most {
		return out, nil
	}
	return nil, ErrTotal
}

// next returns the slot that is evicted next of those up to a stage, nil if there is none;
// mu is held.
func (p *Pool) next(upTo Stage) *Slot {
	within, level := p.all, 0
	for _, share := range [...]int{networkShare, addressShare} {
		s := p.ofLargest(within, level, upTo)
		if s == nil {
			return nil
		}
		largest := s.groups[level+1]
		if largest.upTo(upTo)*share <= within.upTo(upTo) {
			break
		}
		within, level = largest, level+1
	}
	return p.first(within, level, upTo)
}

// ofLargest returns a slot of the largest group within a group of a level. Of equal ones it
// is the first in the order of evictions.
func (p *Pool) ofLargest(within *group, level int, upTo Stage) (of *Slot) {
	for _, s := range p.slots {
		if s.groups[level] != within || s.stage > upTo {
			continue
		}
		if of == nil || cmp.Or(cmp.Compare(of.groups[level+1].upTo(upTo), s.groups[level+1].upTo(upTo)), order(s, of)) < 0 {
			of = s
		}
	}
	return of
}

// first returns the slot of a group of a level that is evicted first: the oldest
// unfinished, else the longest idle; nil if none can be.
func (p *Pool) first(within *group, level int, upTo Stage) (first *Slot) {
	for _, s := range p.slots {
		if s.groups[level] == within && s.stage <= upTo && (first == nil || order(s, first) < 0) {
			first = s
		}
	}
	return first
}

// order compares two slots in the order of evictions.
func order(s, t *Slot) int {
	return cmp.Or(cmp.Compare(s.stage, t.stage), cmp.Compare(s.since, t.since))
}

// Move sets the stage of s; from now on it is the newest of that stage.
func (s *Slot) Move(to Stage) { s.change(func() { s.base = to; s.restage() }) }

// Hold keeps s at stage Working until Release is called as often; Move has no effect until
// then.
func (s *Slot) Hold() { s.change(func() { s.holds++; s.restage() }) }

// Release undoes one Hold.
func (s *Slot) Release() { s.change(func() { s.holds--; s.restage() }) }

// Leave releases the slot. Leaving twice, or after an eviction, does nothing.
func (s *Slot) Leave() { s.change(func() { s.pool.remove(s) }) }

// change calls f, which may change s, if s is inside.
func (s *Slot) change(f func()) {
	p := s.pool
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.holder != nil {
		f()
	}
}

// restage sets the stage that counts, after a change; mu is held.
func (s *Slot) restage() {
	s.count(-1)
	s.stage = s.base
	if s.holds > 0 {
		s.stage = Working
	}
	s.count(1)
	s.pool.now++
	s.since = s.pool.now
}

// count adds to the counters of its groups at its stage; mu is held.
func (s *Slot) count(n int) {
	for _, g := range s.groups {
		g[s.stage] += n
	}
}

// remove removes s from the pool; mu is held.
func (p *Pool) remove(s *Slot) {
	s.count(-1)
	for level, groups := range [...]map[netip.Addr]*group{p.networks, p.addresses} {
		if s.groups[level+1].upTo(Working) == 0 {
			delete(groups, [...]netip.Addr{Network(s.address), s.address}[level])
		}
	}
	last := p.slots[len(p.slots)-1]
	p.slots[s.at], last.at = last, s.at
	p.slots[len(p.slots)-1] = nil
	p.slots = p.slots[:len(p.slots)-1]
	s.holder = nil
}

// Count returns how many slots are taken, and how many of them are unfinished.
func (p *Pool) Count() (open, unfinished int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots), p.all.upTo(Unfinished)
}

// Holders returns the holders of all slots, in no order.
func (p *Pool) Holders() []Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Holder, 0, len(p.slots))
	for _, s := range p.slots {
		all = append(all, s.holder)
	}
	return all
}
