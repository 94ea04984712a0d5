package admission_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"gatehouse/internal/board/admission"
)

// client is a guest that knows whether it was evicted.
type client struct {
	place   admission.Place
	address netip.Addr
	evicted int
}

func (c *client) Evict() { c.evicted++ }

// crowd is a crowd with all the clients that ever came.
type crowd struct {
	*admission.Crowd
	t   *testing.T
	all []*client
}

func newCrowd(t *testing.T, limits admission.Limits) *crowd {
	return &crowd{Crowd: admission.New(limits), t: t}
}

// try has a client come.
func (c *crowd) try(address string) (*client, error) {
	g := &client{address: netip.MustParseAddr(address)}
	c.all = append(c.all, g)
	return g, c.Enter(&g.place, g.address, g)
}

// come has a client come that gets in, at a stage.
func (c *crowd) come(address string, stage admission.Stage) *client {
	c.t.Helper()
	g, err := c.try(address)
	if err != nil {
		c.t.Fatalf("%s: %v", address, err)
	}
	g.place.Move(stage)
	return g
}

// evicted lists who was, by the order of coming.
func (c *crowd) evicted() (list []int) {
	for i, g := range c.all {
		if g.evicted > 0 {
			list = append(list, i)
		}
	}
	return list
}

func (c *crowd) want(evicted ...int) {
	c.t.Helper()
	if got := c.evicted(); !slices.Equal(got, evicted) {
		c.t.Errorf("evicted %v, want %v", got, evicted)
	}
}

const (
	half = admission.Unfinished
	idle = admission.Idle
	busy = admission.Working
)

// The address that holds most loses: first what is unfinished, then the longest idle.
func TestCrowd_Enter_evicts(t *testing.T) {
	c := newCrowd(t, admission.Limits{Total: 7})
	c.come("192.0.2.1", idle) // 0
	c.come("192.0.2.2", busy) // 1
	c.come("192.0.2.2", idle) // 2
	c.come("192.0.2.2", half) // 3
	c.come("192.0.2.2", idle) // 4
	c.come("192.0.2.2", half) // 5
	c.come("192.0.2.3", half) // 6
	c.come("192.0.2.4", busy) // 7
	c.want(3)
	c.come("192.0.2.4", busy)
	c.want(3, 5)
	c.come("192.0.2.4", busy)
	c.want(2, 3, 5)
	c.come("192.0.2.4", busy) // now all hold one: what is unfinished goes, then the longest idle
	c.want(2, 3, 5, 6)
	c.come("192.0.2.4", busy)
	c.want(0, 2, 3, 5, 6)
	c.come("192.0.2.4", busy)
	c.want(0, 2, 3, 4, 5, 6)
	if _, err := c.try("192.0.2.5"); !errors.Is(err, admission.ErrFull) {
		t.Errorf("all are working: %v", err)
	}
	if open, unfinished := c.Count(); open != 7 || unfinished != 0 {
		t.Errorf("%d open, %d unfinished", open, unfinished)
	}
}

func TestCrowd_Enter_unfinished(t *testing.T) {
	c := newCrowd(t, admission.Limits{Total: 100, Unfinished: 3})
	c.come("192.0.2.1", idle)
	c.come("192.0.2.1", idle)
	c.come("192.0.2.1", half) // 2
	c.come("192.0.2.2", half) // 3
	c.come("192.0.2.2", half) // 4
	c.come("192.0.2.3", half) // 5: from the address that holds most that is unfinished
	c.want(3)
	c.come("192.0.2.2", half) // 6: all hold one, now
	c.want(2, 3)
}

// Those that work leave the bound of the others untouched.
func TestCrowd_Enter_resting(t *testing.T) {
	c := newCrowd(t, admission.Limits{Total: 6, Resting: 2})
	c.come("192.0.2.1", busy)
	c.come("192.0.2.1", busy)
	c.come("192.0.2.1", half) // 2
	c.come("192.0.2.2", idle) // 3
	c.want()
	c.come("192.0.2.3", busy) // 4: it rested when it came
	c.want(2)
	late := c.come("192.0.2.4", busy) // 5
	late.place.Move(idle)
	c.want(2)
	c.come("192.0.2.5", half) // 6
	c.want(2, 3)
	c.come("192.0.2.5", half) // 7
	c.want(2, 3, 6)
}

// An address at its own bound evicts its own, or nobody; loopback has none.
func TestCrowd_Enter_perAddress(t *testing.T) {
	for _, address := range []string{"192.0.2.1", "2001:db8::1", "fe80::1%eth0"} {
		c := newCrowd(t, admission.Limits{Total: 100, PerAddress: 2})
		c.come("192.0.2.99", half)
		c.come("2001:db8::2", half)
		c.come("fe80::1%eth1", half)
		c.come(address, busy)
		c.come(address, idle) // 4
		c.come(address, busy)
		c.want(4)
		if _, err := c.try(address); !errors.Is(err, admission.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
		c.want(4)
	}
	c := newCrowd(t, admission.Limits{Total: 100, PerAddress: 2})
	for range 10 {
		c.come("127.0.0.1", busy)
		c.come("::1", busy)
	}
	c.want()
}

// An address that evicts its own last place keeps a holder of its own.
func TestCrowd_Enter_lastOfItsAddress(t *testing.T) {
	for name, limits := range map[string]admission.Limits{
		"address":    {Total: 100, PerAddress: 1},
		"total":      {Total: 1},
		"unfinished": {Total: 100, Unfinished: 1},
	} {
		c := newCrowd(t, limits)
		c.come("192.0.2.1", half)
		b := c.come("192.0.2.1", half)
		c.want(0)
		b.place.Move(busy)
		if got := c.Guests(); len(got) != 1 || got[0] != admission.Guest(b) {
			t.Errorf("%s: guests %v, want the newcomer", name, got)
		}
		if _, err := c.try("192.0.2.2"); (err != nil) != (limits.Total == 1) {
			t.Errorf("%s: another address: %v", name, err)
		}
		if _, err := c.try("192.0.2.1"); (err != nil) != (name != "unfinished") {
			t.Errorf("%s: the same address again: %v", name, err)
		}
	}
}

// Where loopback holds more than the total, a newcomer to an address at its bound evicts
// one guest, and that guest is evicted in fact.
func TestCrowd_Enter_beyondTheTotal(t *testing.T) {
	c := newCrowd(t, admission.Limits{Total: 4, PerAddress: 2})
	own := c.come("192.0.2.1", busy)
	c.come("192.0.2.1", busy)
	other := c.come("192.0.2.2", busy)
	c.come("192.0.2.2", busy)
	c.come("127.0.0.1", busy)
	own.place.Move(idle)
	other.place.Move(idle)
	c.come("192.0.2.1", busy)
	c.want(0)
	if open, _ := c.Count(); open != 5 || len(c.Guests()) != 5 {
		t.Errorf("%d open, %d guests", open, len(c.Guests()))
	}
}

// Loopback gets in where everybody is working.
func TestCrowd_Enter_loopback(t *testing.T) {
	c := newCrowd(t, admission.Limits{Total: 64})
	for n := range 64 {
		c.come(fmt.Sprintf("192.0.2.%d", n), busy)
	}
	for range 4 {
		c.come("127.0.0.1", busy)
		if _, err := c.try("192.0.2.99"); !errors.Is(err, admission.ErrFull) {
			t.Error(err)
		}
	}
	if _, err := c.try("127.0.0.1"); !errors.Is(err, admission.ErrFull) {
		t.Errorf("beyond the reserve: %v", err)
	}
}

func TestPlace(t *testing.T) {
	c := newCrowd(t, admission.Limits{Total: 2})
	var outside admission.Place
	outside.Move(idle)
	outside.Hold()
	outside.Release()
	outside.Leave()
	a, b := c.come("192.0.2.1", idle), c.come("192.0.2.1", idle)
	a.place.Hold()
	a.place.Hold()
	a.place.Move(half)
	a.place.Release()
	d := c.come("192.0.2.2", busy)
	c.want(1)
	b.place.Move(half) // it has left
	b.place.Leave()
	b.place.Leave()
	if open, _ := c.Count(); open != 2 {
		t.Errorf("%d open", open)
	}
	a.place.Release()
	c.come("192.0.2.3", idle)
	c.want(0, 1)
	d.place.Leave()
	if err := c.Enter(&d.place, d.address, d); err != nil { // again
		t.Error(err)
	}
	if got := c.Guests(); len(got) != 2 || !slices.Contains(got, admission.Guest(d)) {
		t.Errorf("guests %v", got)
	}
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "[::ffff:192.0.2.1]:1": "192.0.2.1", "[2001:db8::1]:1": "2001:db8::1", "[fe80::1%lo]:1": "fe80::1%lo",
	} {
		addr, err := net.ResolveTCPAddr("tcp", remote)
		if err != nil {
			t.Fatal(err)
		}
		if got := admission.Address(addr); got.String() != want {
			t.Errorf("%s is counted as %s", remote, got)
		}
	}
	if admission.Address(&net.UnixAddr{}).IsValid() {
		t.Error("a Unix socket has an address")
	}
}

// Whatever happens, the bounds hold, the counts are right, nobody is evicted twice and
// nobody who works.
func TestCrowd_random(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limits := admission.Limits{Total: 50, PerAddress: 20, Unfinished: 15}
	c := newCrowd(t, limits)
	inside := make(map[*client]admission.Stage)
	for range 20_000 {
		switch random.IntN(3) {
		case 0:
			g, err := c.try(fmt.Sprintf("192.0.2.%d", random.IntN(8)))
			if err == nil {
				inside[g] = half
			}
		case 1:
			for g := range inside {
				inside[g] = admission.Stage(random.IntN(3))
				if open, unfinished := c.Count(); inside[g] != half || open == 0 || unfinished < limits.Unfinished {
					g.place.Move(inside[g])
				} else {
					inside[g] = busy
					g.place.Move(busy)
				}
				break
			}
		case 2:
			for g := range inside {
				g.place.Leave()
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
		if open, half := c.Count(); open != len(inside) || half != unfinished || open > limits.Total || half > limits.Unfinished {
			t.Fatalf("counts %d and %d, are %d and %d", open, half, len(inside), unfinished)
		}
	}
}
