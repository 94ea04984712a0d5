package kit

import (
	"cmp"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// mostTurn is how long a turn lasts at most: a client that does not take its answer keeps
// others waiting for no longer. briefTurn is the same for a request that changes something,
// which also waits for disks and hashes, and for those of strangers, who may be many networks.
const mostTurn, briefTurn = 100 * time.Millisecond, 10 * time.Millisecond

// waitingStrangers bounds the requests of strangers that wait for their turn. Beyond, one of the
// network with most is refused, so that a network has its turn while fewer than 64 others try.
const waitingStrangers = 64

// caller has turns at the processor, and places for its changes: a class of callers, one of
// it, or a part of that.
type caller struct {
	class class
	name  string     // of one of a class, but for strangers
	fresh bool       // it is the logins of a network whose addresses have not failed lately
	from  netip.Addr // a network, or an address of a network of strangers
}

// class is a group of callers.
type class uint8

const (
	strangers      class = iota // by network, then by address; they have shown no valid token
	accounts                    // integration tokens among them
	administrators              // accounts on the admin API
	users                       // those of this machine, on the admin socket
)

// newTurns returns the queue for turns: as many at once as there are processors, but for one
// that stays free for doors.
func newTurns(processors int) *limit.Queue[caller] {
	return limit.NewQueue(processors-1, limit.OldestFirst, func(level int, who caller) int {
		if level == 0 && who.class == strangers {
			return waitingStrangers
		}
		return 0
	})
}

// class returns the class of the caller.
func (x *Exchange) class() class {
	switch by := x.Req.Actor; {
	case by.Account != "" && by.Origin == site.Admin:
		return administrators
	case by.Account != "", x.known.Account != "":
		return accounts
	case by.Name != "":
		return users
	}
	return strangers
}

// callers is a path of callers, each within the one before.
type callers struct {
	keys  [4]caller
	depth int
}

// path returns whose turn a request needs. Within an account the networks of its clients have
// turns, and its known devices. Within a network of strangers the logins from addresses that
// have not failed lately have turns beside all else, so that no address that fails keeps
// another from logging in, however many there are.
func (x *Exchange) path() callers {
	class, address := x.class(), x.Req.Remote()
	one := caller{class: class, name: cmp.Or(string(x.Req.Actor.Account), string(x.known.Account), x.Req.Actor.Name)}
	part := one
	part.from = limit.Network(address)
	switch {
	case class == strangers:
		fresh, client := part, part
		fresh.fresh, client.fresh, client.from = x.known.Fresh, x.known.Fresh, address
		return callers{[4]caller{{class: class}, part, fresh, client}, 4}
	case x.known.Device != "":
		part.name += x.known.Device
	case class == users:
		return callers{[4]caller{{class: class}, one}, 2}
	}
	return callers{[4]caller{{class: class}, one, part}, 3}
}

// turn is a slot of a request among those whose answers are computed and written. The
// request is not evicted while it has its turn.
type turn struct {
	x     *Exchange
	leave func() // releases the slot
	limit *time.Timer
	over  atomic.Bool
}

// beginTurn begins the turn of x; leave releases its slot.
func (x *Exchange) beginTurn(leave func()) {
	t := &turn{x: x, leave: leave}
	x.hold()
	most := mostTurn
	if !x.stream && (x.working || x.class() == strangers) {
		most = briefTurn
	}
	t.limit = time.AfterFunc(most, t.release)
	x.turn = t
}

// end ends the turn, if it has begun and is not over.
func (t *turn) end() {
	if t != nil {
		t.limit.Stop()
		t.release()
	}
}

// release releases the slot once.
func (t *turn) release() {
	if !t.over.Swap(true) {
		t.x.release()
		t.leave()
	}
}

// awaitTurn waits for the turn of x, before it is served: each request has one, a stream one
// for each of its parts. Doors need none and are waited for; all else has turns by caller, so
// that no number of requests of one caller delays the door of another for longer than one
// answer takes, or another caller for more than one of its answers each. A request that changes
// nothing may be evicted while it waits. The error is that of a client that has gone before its
// turn came, or of one for which there is no room.
func (x *Exchange) awaitTurn() error {
	if x.turn != nil && (!x.stream || !x.turn.over.Load()) {
		return nil
	}
	path := x.path()
	leave, err := x.kit.turns.EnterLate(x.Req.Context(), path.keys[:path.depth]...)
	switch {
	case errors.Is(err, limit.ErrFull):
		return x.crowded()
	case err != nil:
		return err
	}
	x.beginTurn(leave)
	return nil
}
