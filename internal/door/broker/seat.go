package broker

import (
	"sync"
	"sync/atomic"

	"gatehouse/internal/site"
)

// seats holds the one connection of each station.
type seats struct {
	mu    sync.Mutex // mu guards taken
	taken map[site.StationID]*seat
	last  atomic.Uint64 // number of the last connection that took a seat
}

// seat is the place of one station. It stays when the station leaves: only a
// secret makes one, so there are no more than stations.
type seat struct {
	// takeOver holds a token while a connection takes the seat and ends the one before
	// it: the next to take it finds no other one alive.
	takeOver chan struct{}
	taker    atomic.Pointer[Conn]
	// order is held while the handler is called for a new connection, so that those of one
	// station reach it in the order of their take-overs.
	order sync.Mutex
	shown *Conn // the connection that Connected took last and whose end was not announced; order guards it
}

// take makes c the connection of its station, once end has ended the one before it,
// if there is one.
func (t *seats) take(c *Conn, end func(before *Conn)) {
	c.seat = t.of(c.Station())
	c.seat.takeOver <- struct{}{}
	defer func() { <-c.seat.takeOver }()
	c.number = site.ConnectionID(t.last.Add(1))
	if before := c.seat.taker.Swap(c); before != nil {
		end(before)
	}
}

// of returns the seat of a station.
func (t *seats) of(id site.StationID) *seat {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[id] == nil {
		t.taken[id] = &seat{takeOver: make(chan struct{}, 1)}
	}
	return t.taken[id]
}

// leave frees the seat of c, and calls end with the connection that the handler knows
// there. If another connection has taken the seat, or c had none, it does nothing: the
// handler learns of the successor in Connected, or, if that ends before it is
// established, of the end of both from the successor's own leave. So the station does not
// appear offline between the two.
func (t *seats) leave(c *Conn, end func(shown *Conn)) {
	if c.seat == nil {
		return
	}
	c.seat.order.Lock()
	defer c.seat.order.Unlock()
	if !c.seat.taker.CompareAndSwap(c, nil) || c.seat.shown == nil {
		return
	}
	shown := c.seat.shown
	c.seat.shown = nil
	end(shown)
}
