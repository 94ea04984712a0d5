package limit

import (
	"errors"
	"net/netip"
	"sync"
)

// Limits bound what a [Pool] holds. 0 is no bound.
type Limits struct {
	Total      int // slots in all
	PerAddress int // slots of one client address; loopback has no bound of its own
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
	// take its answer.
	Unfinished Stage = iota
	// Idle has finished and asks for nothing at present.
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

// A network, or an address of it, loses a slot first if it holds several, and more than one
// part in so many of all that can be evicted. Below that no one can be blamed: a house behind one
// address may hold more than each of many addresses of one attacker, but its clients finish
// in milliseconds, so that the oldest slots are not theirs.
const (
	networkShare = 8
	addressShare = 2
)

// Pool holds a bounded number of slots. A newcomer to a full pool is admitted at once. It
// evicts the oldest of the stage that has most slots, unfinished or idle, so that a newcomer
// has until half as many others have come as there are slots, and few idle slots are safe from
// a flood of newcomers. That is done in the network that holds most, or in all where no network
// holds an eighth; within a network an address that holds more than half of it loses first. A
// newcomer whose address is at its bound evicts from that. An eviction takes the same time
// however many slots there are. Safe for concurrent use.
type Pool struct {
	limits Limits

	mu        sync.Mutex // mu guards what follows, and what is in each Slot
	all       *group
	networks  map[netip.Addr]*group
	addresses map[netip.Addr]*group
}

// group holds the slots of a pool, a network or an address.
type group struct {
	level  int // 0 for the pool, 1 for a network, 2 for an address
	within *group
	stages [Working + 1]chain
	// parts has, for each number of slots that can be evicted, the first of the groups within this one
	// that have as many. The last is nil only where it is that of 0.
	parts         []*group
	before, after *group // neighbours in the list of parts of within
}

// chain is the slots of a group at one stage, the longest there first.
type chain struct {
	first, last *Slot
	length      int
}

// link is what comes before and after a slot in a chain.
type link struct{ before, after *Slot }

// resting returns how many slots of the group can be evicted.
func (g *group) resting() int { return g.stages[Unfinished].length + g.stages[Idle].length }

// open returns how many slots the group has.
func (g *group) open() int { return g.resting() + g.stages[Working].length }

// oldest returns the slot that is evicted first, nil if none can be. Of equals that is an idle
// one: its client reconnects, where another loses a request.
func (g *group) oldest() *Slot {
	if g.stages[Idle].length >= g.stages[Unfinished].length {
		return g.stages[Idle].first
	}
	return g.stages[Unfinished].first
}

// add adds s to its stage.
func (g *group) add(s *Slot) {
	c := &g.stages[s.stage]
	s.links[g.level] = link{before: c.last}
	if c.last == nil {
		c.first = s
	} else {
		c.last.links[g.level].after = s
	}
	c.last = s
	c.length++
	if g.within != nil && s.stage < Working {
		g.unlist(g.resting() - 1)
		g.list(g.resting())
	}
}

// remove removes s from its stage.
func (g *group) remove(s *Slot) {
	c, at := &g.stages[s.stage], s.links[g.level]
	if at.before == nil {
		c.first = at.after
	} else {
		at.before.links[g.level].after = at.after
	}
	if at.after == nil {
		c.last = at.before
	} else {
		at.after.links[g.level].before = at.before
	}
	c.length--
	if g.within != nil && s.stage < Working {
		g.unlist(g.resting() + 1)
		g.list(g.resting())
	}
}

// list adds g to the parts with n slots of the group that it is in, and unlist removes it. A
// part without slots is in no list.
func (g *group) list(n int) {
	if n == 0 {
		return
	}
	w := g.within
	for len(w.parts) <= n {
		w.parts = append(w.parts, nil)
	}
	g.before, g.after = nil, w.parts[n]
	if g.after != nil {
		g.after.before = g
	}
	w.parts[n] = g
}

func (g *group) unlist(n int) {
	if n == 0 {
		return
	}
	w := g.within
	if g.after != nil {
		g.after.before = g.before
	}
	if g.before != nil {
		g.before.after = g.after
	} else if w.parts[n] = g.after; g.after == nil && n == len(w.parts)-1 {
		w.parts = w.parts[:n] // list makes its end not nil again: no more than one slot is added or removed at a time
	}
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
	links   [3]link   // in the stage of each group
	base    Stage     // as last set by Move
	stage   Stage     // what counts: Working while holds > 0, else base
	holds   int
}

// Enter acquires a slot for h at stage Unfinished, and evicts a holder if there is no room.
// s must be outside. It returns ErrTotal or ErrAddress if none can be evicted.
func (p *Pool) Enter(s *Slot, address netip.Addr, h Holder) error {
	p.mu.Lock()
	out, err := p.makeRoom(address)
	if err == nil {
		network := groupOf(p.networks, Network(address), p.all)
		*s = Slot{pool: p, holder: h, address: address, groups: [3]*group{p.all, network, groupOf(p.addresses, address, network)}}
		s.add()
	}
	p.mu.Unlock()
	for _, h := range out {
		h.Evict()
	}
	return err
}

// groupOf returns the group of a key, which is part of another.
func groupOf(groups map[netip.Addr]*group, key netip.Addr, within *group) *group {
	g := groups[key]
	if g == nil {
		g = &group{level: within.level + 1, within: within}
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
	if bounded && own != nil && own.open() >= p.limits.PerAddress && !evict(own.oldest()) {
		return nil, ErrAddress
	}
	for p.limits.Resting > 0 && p.all.resting() >= p.limits.Resting && evict(p.next()) {
		continue
	}
	most := p.limits.Total
	if address.IsLoopback() {
		most += p.reserved()
	}
	// Loopback may hold more than the total; one for one is enough.
	if p.limits.Total <= 0 || p.all.open() < p.limits.Total || len(out) > 0 || evict(p.next()) || p.all.open() < most {
		return out, nil
	}
	return nil, ErrTotal
}

// next returns the slot that is evicted next, nil if there is none; mu is held.
func (p *Pool) next() *Slot {
	within := p.all
	for _, share := range [...]int{networkShare, addressShare} {
		most := len(within.parts) - 1
		if most <= 1 || most*share <= within.resting() {
			break
		}
		within = within.parts[most]
	}
	return within.oldest()
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

// restage sets the stage that counts, after a change; mu is held. The order of those that work
// does not matter.
func (s *Slot) restage() {
	to := s.base
	if s.holds > 0 {
		to = Working
	}
	if to == Working && s.stage == Working {
		return
	}
	s.remove()
	s.stage = to
	s.add()
}

// add adds s to its groups; mu is held.
func (s *Slot) add() {
	for _, g := range s.groups {
		g.add(s)
	}
}

// remove removes s from its groups; mu is held.
func (s *Slot) remove() {
	for _, g := range s.groups {
		g.remove(s)
	}
}

// remove removes s from the pool; mu is held.
func (p *Pool) remove(s *Slot) {
	s.remove()
	if s.groups[2].open() == 0 {
		delete(p.addresses, s.address)
	}
	if s.groups[1].open() == 0 {
		delete(p.networks, Network(s.address))
	}
	s.holder = nil
}

// Count returns how many slots are taken, and how many of them are unfinished.
func (p *Pool) Count() (open, unfinished int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.open(), p.all.stages[Unfinished].length
}

// Holders returns the holders of all slots, in no order.
func (p *Pool) Holders() (all []Holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all.stages {
		for s := c.first; s != nil; s = s.links[0].after {
			all = append(all, s.holder)
		}
	}
	return all
}
