// Package admission decides which clients are admitted when there is no room for all: a
// [Crowd] bounds what clients hold at once, connections or requests, a [Quota] bounds
// streams, and [Handshakes] orders the TLS handshakes of a processor that is too slow for
// all of them. Packages broker and kit use it. It reads nothing that a client sends, and
// starts no goroutine.
//
// The promise: no number of clients that have not logged in keeps another address out,
// or makes another client wait.
package admission

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Limits bound what a [Crowd] holds. 0 is no bound.
type Limits struct {
	Total      int // places in all
	PerAddress int // places of one client address; loopback has no bound of its own
	Unfinished int // places at stage Unfinished
	Resting    int // places that are not at stage Working
}

// Why a crowd refuses a newcomer.
var (
	// ErrFull: every place is taken, and every holder of one is working.
	ErrFull = errors.New("no place is free")
	// ErrAddress: the same among the places of the newcomer's address.
	ErrAddress = errors.New("no place of this address is free")
)

// Stage is how far the holder of a place has come. It decides who is evicted first.
type Stage uint8

const (
	// Unfinished has not completed its handshake, header, CONNECT or body, or does not
	// take its answer. It is the first to be evicted.
	Unfinished Stage = iota
	// Idle has finished and asks for nothing at present. It is evicted if no connection
	// is unfinished, the longest idle first.
	Idle
	// Working is never evicted.
	Working
)

// Guest is what holds a [Place].
type Guest interface {
	// Evict ends it, because a newcomer has taken its place. It is called at most once
	// for each Enter, by the newcomer's goroutine, and must not block.
	Evict()
}

// Crowd holds a bounded number of places. A newcomer to a full crowd is admitted at once:
// it evicts from the address that holds most of what can be evicted, and if its own
// address is at its bound, from that. An eviction looks at each place, everything else
// at those of one address at most. Safe for concurrent use.
type Crowd struct {
	limits Limits

	mu     sync.Mutex // mu guards what follows, and what is in each Place
	places map[netip.Addr][]*Place
	held   [Working + 1]int // how many places are at each stage
	now    uint64           // counts changes
}

// New returns an empty crowd.
func New(limits Limits) *Crowd {
	return &Crowd{limits: limits, places: make(map[netip.Addr][]*Place)}
}

// Place is one place in a crowd, or outside of any, as the zero Place is: there its
// methods do nothing. It may be entered again after it was left. Safe for concurrent
// use; not to be copied.
type Place struct {
	crowd   *Crowd // set by the first Enter
	guest   Guest  // nil: outside
	address netip.Addr
	base    Stage  // as last set by Move
	stage   Stage  // what counts: Working while holds > 0, else base
	since   uint64 // when that was set
	holds   int
}

// Address returns the client address of a connection as its places are counted: the
// whole address with its zone (contract, section 1). Not valid where there is none.
func Address(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// Enter acquires a place for g at stage Unfinished, and evicts a guest if there is no
// room. p must be outside. It returns ErrFull or ErrAddress if no guest can be evicted.
func (c *Crowd) Enter(p *Place, address netip.Addr, g Guest) error {
	c.mu.Lock()
	out, err := c.makeRoom(address)
	if err == nil {
		*p = Place{crowd: c, guest: g, address: address}
		c.places[address] = append(c.places[address], p)
		c.held[p.stage]++
		p.restage()
	}
	c.mu.Unlock()
	for _, g := range out {
		g.Evict()
	}
	return err
}

// reserved is how many places of a crowd are for loopback alone when every guest is
// working, so that local programs and the administrator get in.
func (c *Crowd) reserved() int { return max(4, c.limits.Total/16) }

// makeRoom removes guests for a newcomer at address, and returns them; mu is held.
func (c *Crowd) makeRoom(address netip.Addr) (out []Guest, err error) {
	evict := func(from []*Place) bool {
		p := first(from)
		if p == nil {
			return false
		}
		out = append(out, p.guest)
		c.remove(p)
		return true
	}
	own := c.places[address]
	bounded := c.limits.PerAddress > 0 && address.IsValid() && !address.IsLoopback()
	if bounded && len(own) >= c.limits.PerAddress && !evict(own) {
		return nil, ErrAddress
	}
	if c.limits.Unfinished > 0 && c.held[Unfinished] >= c.limits.Unfinished {
		evict(c.largest(Unfinished))
	}
	for c.limits.Resting > 0 && c.held[Unfinished]+c.held[Idle] >= c.limits.Resting && evict(c.largest(Idle)) {
		continue
	}
	most := c.limits.Total
	if address.IsLoopback() {
		most += c.reserved()
	}
	// Loopback may hold more than the total; one for one is enough.
	if c.limits.Total <= 0 || c.open() < c.limits.Total || len(out) > 0 || evict(c.largest(Idle)) || c.open() < most {
		return out, nil
	}
	return nil, ErrFull
}

// largest returns the places of the address that holds most up to a stage, nil if none
// holds any; mu is held. Of equals it is the one whose place is to be evicted first.
func (c *Crowd) largest(upTo Stage) (most []*Place) {
	held := 1
	for _, places := range c.places {
		holds := 0
		for _, p := range places {
			if p.stage <= upTo {
				holds++
			}
		}
		if holds > held || holds == held && (most == nil || precedesPlace(first(places), first(most))) {
			most, held = places, holds
		}
	}
	return most
}

// first returns the place that is evicted first: the oldest unfinished, else the longest
// idle; nil if none can be.
func first(places []*Place) (first *Place) {
	for _, p := range places {
		if p.stage != Working && (first == nil || precedesPlace(p, first)) {
			first = p
		}
	}
	return first
}

func precedesPlace(p, q *Place) bool {
	return cmp.Or(cmp.Compare(p.stage, q.stage), cmp.Compare(p.since, q.since)) < 0
}

// Move sets the stage of p; from now on it is the newest of that stage.
func (p *Place) Move(to Stage) { p.change(func() { p.base = to; p.restage() }) }

// Hold keeps p at stage Working until Release is called as often; Move has no effect
// until then.
func (p *Place) Hold() { p.change(func() { p.holds++; p.restage() }) }

// Release undoes one Hold.
func (p *Place) Release() { p.change(func() { p.holds--; p.restage() }) }

// Leave releases the place. Leaving twice, or after an eviction, does nothing.
func (p *Place) Leave() { p.change(func() { p.crowd.remove(p) }) }

// change calls f, which may change p, if p is inside.
func (p *Place) change(f func()) {
	c := p.crowd
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.guest != nil {
		f()
	}
}

// restage sets the stage that counts, after a change; mu is held.
func (p *Place) restage() {
	c, was := p.crowd, p.stage
	p.stage = p.base
	if p.holds > 0 {
		p.stage = Working
	}
	c.now++
	p.since = c.now
	c.held[was]--
	c.held[p.stage]++
}

// open returns how many places are taken; mu is held.
func (c *Crowd) open() int { return c.held[Unfinished] + c.held[Idle] + c.held[Working] }

// remove removes p from the crowd; mu is held.
func (c *Crowd) remove(p *Place) {
	places := c.places[p.address]
	at := slices.Index(places, p)
	if c.places[p.address] = slices.Delete(places, at, at+1); len(places) == 1 {
		delete(c.places, p.address)
	}
	c.held[p.stage]--
	p.guest = nil
}

// Count returns how many places are taken, and how many of them are unfinished.
func (c *Crowd) Count() (open, unfinished int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open(), c.held[Unfinished]
}

// Guests returns the guests at all places, in no order.
func (c *Crowd) Guests() []Guest {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Guest, 0, c.open())
	for _, places := range c.places {
		for _, p := range places {
			all = append(all, p.guest)
		}
	}
	return all
}
