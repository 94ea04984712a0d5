package limit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/limit"
)

// client is a holder that knows whether it was evicted.
type client struct {
	slot    limit.Slot
	address netip.Addr
	evicted int
}

func (c *client) Evict() { c.evicted++ }

// pool is a pool with all the clients that ever came.
type pool struct {
	*limit.Pool
	t   *testing.T
	all []*client
}

func newPool(t *testing.T, limits limit.Limits) *pool {
	return &pool{Pool: limit.NewPool(limits), t: t}
}

// try has a client come.
func (c *pool) try(address string) (*client, error) {
	g := &client{address: netip.MustParseAddr(address)}
	c.all = append(c.all, g)
	return g, c.Enter(&g.slot, g.address, g)
}

// come has a client come that gets in, at a stage.
func (c *pool) come(address string, stage limit.Stage) *client {
	c.t.Helper()
	g, err := c.try(address)
	if err != nil {
		c.t.Fatalf("%s: %v", address, err)
	}
	g.slot.Move(stage)
	return g
}

// evicted lists who was, by the order of coming.
func (c *pool) evicted() (list []int) {
	for i, g := range c.all {
		if g.evicted > 0 {
			list = append(list, i)
		}
	}
	return list
}

func (c *pool) want(evicted ...int) {
	c.t.Helper()
	if got := c.evicted(); !slices.Equal(got, evicted) {
		c.t.Errorf("evicted %v, want %v", got, evicted)
	}
}

const (
	half = limit.Unfinished
	idle = limit.Idle
	busy = limit.Working
)

// The network that holds most loses the oldest of its larger stage, and of equals the idle one.
func TestPool_Enter_evicts(t *testing.T) {
	c := newPool(t, limit.Limits{Total: 7})
	c.come("192.0.2.1", idle) // 0
	c.come("192.0.2.2", busy) // 1
	c.come("192.0.2.2", idle) // 2
	c.come("192.0.2.2", half) // 3
	c.come("192.0.2.2", idle) // 4
	c.come("192.0.2.2", half) // 5
	c.come("192.0.2.3", half) // 6
	c.come("192.0.2.4", busy) // 7
	c.want(2)
	c.come("192.0.2.4", busy)
	c.want(2, 3)
	c.come("192.0.2.4", busy)
	c.want(2, 3, 4)
	c.come("192.0.2.4", busy) // now all hold one
	c.want(2, 3, 4, 5)
	c.come("192.0.2.4", busy)
	c.want(0, 2, 3, 4, 5)
	c.come("192.0.2.4", busy)
	c.want(0, 2, 3, 4, 5, 6)
	if _, err := c.try("192.0.2.5"); !errors.Is(err, limit.ErrTotal) {
		t.Errorf("all are working: %v", err)
	}
	if open, unfinished := c.Count(); open != 7 || unfinished != 0 {
		t.Errorf("%d open, %d unfinished", open, unfinished)
	}
}

// Ten addresses that each had a tenth of all, idle after one request, kept every newcomer out:
// the newest, still in its handshake, was evicted before what was idle. A flood of newcomers
// evicts nothing of the few that are idle.
func TestPool_Enter_idleTenths(t *testing.T) {
	for _, many := range []limit.Stage{half, idle} {
		p := newPool(t, limit.Limits{Total: 60})
		for n := range 60 {
			p.come(fmt.Sprintf("198.51.100.%d", n%10), many)
		}
		mine := p.come("192.0.2.1", idle-many)
		for n := range 29 {
			p.come(fmt.Sprintf("198.51.100.%d", n%10), half)
		}
		if mine.evicted > 0 {
			t.Errorf("a slot at stage %d was evicted before those at stage %d", idle-many, many)
		}
	}
}

// A host that has each connection from another address of its /64 evicts its own alone, the
// oldest first, whatever stands behind one address elsewhere. So does one whose addresses
// are as many IPv4 networks as it likes, where those of the house are not the oldest.
func TestPool_Enter_manyAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		from  func(n int) string
		first bool // the house comes before the flood
	}{
		"a network, after the house":  {func(n int) string { return fmt.Sprintf("2001:db8::%x", n+1) }, true},
		"a network, before the house": {func(n int) string { return fmt.Sprintf("2001:db8::%x", n+1) }, false},
		"IPv4, before the house":      {func(n int) string { return fmt.Sprintf("198.51.%d.%d", n/200, n%200) }, false},
	} {
		for _, stage := range []limit.Stage{half, idle} {
			p := newPool(t, limit.Limits{Total: 100})
			house := func() (all []*client) {
				for range 12 {
					all = append(all, p.come("192.0.2.1", half))
				}
				return all
			}
			var mine []*client
			if c.first {
				mine = house()
			}
			for n := range 200 {
				p.come(c.from(n), stage)
			}
			if !c.first {
				mine = house()
				for n := range 80 {
					p.come(c.from(300+n), stage)
				}
			}
			for _, g := range mine {
				if g.evicted > 0 && (stage == half || !strings.HasPrefix(name, "IPv4")) {
					t.Errorf("%s at stage %d: a connection of the house was evicted", name, stage)
					break
				}
			}
		}
	}
}

// A network that held most and shrank since loses nothing for one that holds more and adds no
// more, nor does an address within a network.
func TestPool_Enter_afterShrinking(t *testing.T) {
	for name, flood := range map[string]string{"network": "198.51.100.1", "address": "2001:db8::2"} {
		p := newPool(t, limit.Limits{Total: 60})
		var house []*client
		for range 30 {
			house = append(house, p.come("2001:db8::1", idle))
		}
		for range 25 {
			p.come(flood, idle)
		}
		for _, g := range house[:22] {
			g.slot.Leave()
		}
		for n := range 40 {
			p.come(fmt.Sprintf("192.0.%d.1", n), half)
			p.all[len(p.all)-1].slot.Move(idle)
		}
		for _, g := range house {
			if g.evicted > 0 {
				t.Errorf("%s: a connection of the house was evicted, with %s holding more", name, flood)
				break
			}
		}
	}
}

// Within a network the oldest goes first, unless one address holds more than half of it.
func TestPool_Enter_withinNetwork(t *testing.T) {
	p := newPool(t, limit.Limits{Total: 8})
	for _, address := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5", "2001:db8::6", "2001:db8::7"} {
		p.come(address, half)
	}
	p.come("2001:db8::8", half)
	p.want(0)
	for range 5 { // now ::9 holds more than half
		p.come("2001:db8::9", half)
	}
	p.want(0, 1, 2, 3, 4, 5)
	p.come("2001:db8::a", half)
	p.want(0, 1, 2, 3, 4, 5, 9)
}

// A client with one connection is never evicted while one network holds an eighth of what
// can be, and more than one.
func TestPool_Enter_single(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	p := newPool(t, limit.Limits{Total: 64})
	single := make(map[*client]bool)
	for n := range 20 {
		single[p.come(fmt.Sprintf("192.0.2.%d", n), limit.Stage(n%2))] = true
	}
	for n := range 1000 {
		p.come(fmt.Sprintf("2001:db8:%x::%x", random.IntN(4), n), limit.Stage(random.IntN(2)))
	}
	for g := range single {
		if g.evicted > 0 {
			t.Errorf("%s was evicted", g.address)
		}
	}
}

// Those that work leave the bound of the others untouched.
func TestPool_Enter_resting(t *testing.T) {
	c := newPool(t, limit.Limits{Total: 6, Resting: 2})
	c.come("192.0.2.1", busy)
	c.come("192.0.2.1", busy)
	c.come("192.0.2.1", half) // 2
	c.come("192.0.2.2", idle) // 3
	c.want()
	c.come("192.0.2.3", busy) // 4: it rested when it came
	c.want(3)
	late := c.come("192.0.2.4", busy) // 5
	late.slot.Move(idle)
	c.want(3)
	c.come("192.0.2.5", half) // 6
	c.want(3, 5)
	c.come("192.0.2.5", half) // 7
	c.want(2, 3, 5)
}

// An address at its own bound evicts its own, or nobody; loopback has none.
func TestPool_Enter_perAddress(t *testing.T) {
	for _, address := range []string{"192.0.2.1", "2001:db8::1", "fe80::1%eth0"} {
		c := newPool(t, limit.Limits{Total: 100, PerAddress: 2})
		c.come("192.0.2.99", half)
		c.come("2001:db8::2", half)
		c.come("fe80::1%eth1", half)
		c.come(address, busy)
		c.come(address, idle) // 4
		c.come(address, busy)
		c.want(4)
		if _, err := c.try(address); !errors.Is(err, limit.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
		c.want(4)
	}
	c := newPool(t, limit.Limits{Total: 100, PerAddress: 2})
	for range 10 {
		c.come("127.0.0.1", busy)
		c.come("::1", busy)
	}
	c.want()
}

// An address that evicts its own last place keeps a holder of its own.
func TestPool_Enter_lastOfItsAddress(t *testing.T) {
	for name, limits := range map[string]limit.Limits{
		"address": {Total: 100, PerAddress: 1},
		"total":   {Total: 1},
	} {
		c := newPool(t, limits)
		c.come("192.0.2.1", half)
		b := c.come("192.0.2.1", half)
		c.want(0)
		b.slot.Move(busy)
		if got := c.Holders(); len(got) != 1 || got[0] != limit.Holder(b) {
			t.Errorf("%s: guests %v, want the newcomer", name, got)
		}
		if _, err := c.try("192.0.2.2"); (err != nil) != (limits.Total == 1) {
			t.Errorf("%s: another address: %v", name, err)
		}
		if _, err := c.try("192.0.2.1"); err == nil {
			t.Errorf("%s: the same address again: %v", name, err)
		}
	}
}

// Where loopback holds more than the total, a newcomer to an address at its bound evicts
// one holder, and that one is evicted in fact.
func TestPool_Enter_beyondTheTotal(t *testing.T) {
	c := newPool(t, limit.Limits{Total: 4, PerAddress: 2})
	own := c.come("192.0.2.1", busy)
	c.come("192.0.2.1", busy)
	other := c.come("192.0.2.2", busy)
	c.come("192.0.2.2", busy)
	c.come("127.0.0.1", busy)
	own.slot.Move(idle)
	other.slot.Move(idle)
	c.come("192.0.2.1", busy)
	c.want(0)
	if open, _ := c.Count(); open != 5 || len(c.Holders()) != 5 {
		t.Errorf("%d open, %d holders", open, len(c.Holders()))
	}
}

// Loopback gets in where everybody is working.
func TestPool_Enter_loopback(t *testing.T) {
	c := newPool(t, limit.Limits{Total: 64})
	for n := range 64 {
		c.come(fmt.Sprintf("192.0.2.%d", n), busy)
	}
	for range 4 {
		c.come("127.0.0.1", busy)
		if _, err := c.try("192.0.2.99"); !errors.Is(err, limit.ErrTotal) {
			t.Error(err)
		}
	}
	if _, err := c.try("127.0.0.1"); !errors.Is(err, limit.ErrTotal) {
		t.Errorf("beyond the reserve: %v", err)
	}
}

func TestSlot(t *testing.T) {
	c := newPool(t, limit.Limits{Total: 2})
	var outside limit.Slot
	outside.Move(idle)
	outside.Hold()
	outside.Release()
	outside.Leave()
	a, b := c.come("192.0.2.1", idle), c.come("192.0.2.1", idle)
	a.slot.Hold()
	a.slot.Hold()
	a.slot.Move(half)
	a.slot.Release()
	d := c.come("192.0.2.2", busy)
	c.want(1)
	b.slot.Move(half) // it has left
	b.slot.Leave()
	b.slot.Leave()
	if open, _ := c.Count(); open != 2 {
		t.Errorf("%d open", open)
	}
	a.slot.Release()
	c.come("192.0.2.3", idle)
	c.want(0, 1)
	d.slot.Leave()
	if err := c.Enter(&d.slot, d.address, d); err != nil { // again
		t.Error(err)
	}
	if got := c.Holders(); len(got) != 2 || !slices.Contains(got, limit.Holder(d)) {
		t.Errorf("holders %v", got)
	}
}

// Whatever happens, the bounds hold, the counts are right, nobody is evicted twice and
// nobody who works.
func TestPool_random(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limits := limit.Limits{Total: 50, PerAddress: 20}
	c := newPool(t, limits)
	inside := make(map[*client]limit.Stage)
	for range 20_000 {
		switch random.IntN(3) {
		case 0:
			g, err := c.try(fmt.Sprintf("192.0.2.%d", random.IntN(8)))
			if err == nil {
				inside[g] = half
			}
		case 1:
			for g := range inside {
				inside[g] = limit.Stage(random.IntN(3))
				g.slot.Move(inside[g])
				break
			}
		case 2:
			for g := range inside {
				g.slot.Leave()
				delete(inside, g)
				break
			}
		}
		unfinished, from := 0, make(map[netip.Addr]int)
		for g, stage := range inside {
			if g.evicted > 1 || (g.evicted > 0 && stage == busy) {
				t.Fatalf("evicted %d times at stage %d", g.evicted, stage)
			}
			if g.evicted > 0 {
				delete(inside, g)
				continue
			}
			from[g.address]++
			if stage == half {
				unfinished++
			}
			if from[g.address] > limits.PerAddress {
				t.Fatalf("%s holds %d", g.address, from[g.address])
			}
		}
		if open, half := c.Count(); open != len(inside) || half != unfinished || open > limits.Total {
			t.Fatalf("counts %d and %d, are %d and %d", open, half, len(inside), unfinished)
		}
	}
}
