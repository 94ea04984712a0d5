package broker

import (
	"container/list"
	"context"
	"net/netip"
	"sync"
	"time"
)

// crowd counts the open connections and says whether there is room for one more.
type crowd struct {
	limits Limits
	grace  time.Duration // that a connecting one has before it must give way
	freed  chan struct{} // holds a token when a place among the connecting may be free

	mu         sync.Mutex // mu guards what follows, and place of each Conn
	open       map[*Conn]struct{}
	perAddress map[netip.Addr]int
	connecting *list.List // of *Conn, the oldest first
}

func newCrowd(limits Limits) *crowd {
	return &crowd{
		limits: limits, grace: limits.ConnectTimeout / 5, freed: make(chan struct{}, 1),
		open: make(map[*Conn]struct{}), perAddress: make(map[netip.Addr]int), connecting: list.New(),
	}
}

// enter lets c in among the connecting, or says why not. When those are too many,
// it waits until one has left or the oldest has had its grace; that one then has to
// give way.
func (d *crowd) enter(ctx context.Context, c *Conn) (givesWay *Conn, r *refusal) {
	for {
		wait, givesWay, r := d.tryEnter(c)
		if wait <= 0 {
			return givesWay, r
		}
		timer := time.NewTimer(wait)
		select {
		case <-d.freed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errStopping
		}
		timer.Stop()
	}
}

func (d *crowd) tryEnter(c *Conn) (wait time.Duration, givesWay *Conn, r *refusal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.open) >= d.limits.Connections:
		return 0, nil, errFull
	case d.perAddress[c.address] >= d.limits.ConnectionsPerAddress:
		return 0, nil, errAddress
	}
	if d.connecting.Len() >= d.limits.Connecting {
		givesWay = d.connecting.Front().Value.(*Conn)
		if wait = d.grace - time.Since(givesWay.accepted); wait > 0 {
			return wait, nil, nil
		}
		d.unplace(givesWay)
	}
	d.open[c] = struct{}{}
	d.perAddress[c.address]++
	c.place = d.connecting.PushBack(c)
	d.signal()
	return 0, givesWay, nil
}

// settle says that c has sent its CONNECT.
func (d *crowd) settle(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unplace(c)
	d.signal()
}

// leave says that c has ended.
func (d *crowd) leave(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.open[c]; !ok {
		return
	}
	delete(d.open, c)
	if d.perAddress[c.address]--; d.perAddress[c.address] == 0 {
		delete(d.perAddress, c.address)
	}
	d.unplace(c)
	d.signal()
}

// unplace takes c from the connecting; mu is held.
func (d *crowd) unplace(c *Conn) {
	if c.place != nil {
		d.connecting.Remove(c.place)
		c.place = nil
	}
}

// signal wakes one accept loop if there is a place; mu is held.
func (d *crowd) signal() {
	if d.connecting.Len() >= d.limits.Connecting {
		return
	}
	select {
	case d.freed <- struct{}{}:
	default:
	}
}

// all lists the open connections.
func (d *crowd) all() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*Conn, 0, len(d.open))
	for c := range d.open {
		list = append(list, c)
	}
	return list
}

// count is how many connections are open.
func (d *crowd) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// waiting is how many of them have not sent their CONNECT.
func (d *crowd) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.connecting.Len()
}
