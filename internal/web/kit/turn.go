package kit

import (
	"errors"
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

// caller has turns at the processor: a class of callers (without a name), or one of it.
type caller struct {
	class class
	name  string
}

// class is a group of callers.
type class uint8

const (
	strangers      class = iota // by network; they have shown no valid token
	accounts                    // integration tokens among them
	administrators              // accounts on the admin API
	users                       // those of this machine, on the admin socket
)

// newTurns returns the queue for turns: as many at once as there are processors, but for one
// that stays free for doors.
func newTurns(processors int) *limit.Queue[caller] {
	return limit.NewQueue(processors-1, limit.OldestFirst, func(path []caller) int {
		if len(path) == 1 && path[0].class == strangers {
			return waitingStrangers
		}
		return 0
	})
}

// caller returns whose turn a request needs.
func (x *Exchange) caller() caller {
	switch by := x.Req.Actor; {
	case by.Account != "" && by.Origin == site.Admin:
		return caller{administrators, string(by.Account)}
	case by.Account != "":
		return caller{accounts, string(by.Account)}
	case by.Name != "":
		return caller{users, by.Name}
	case x.known != "":
		return caller{accounts, string(x.known)}
	}
	return caller{strangers, limit.Network(x.Req.Remote()).String()}
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
	if !x.stream && (x.working || x.caller().class == strangers) {
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
	who := x.caller()
	leave, err := x.kit.turns.EnterLate(x.Req.Context(), caller{class: who.class}, who)
	switch {
	case errors.Is(err, limit.ErrFull):
		return x.crowded()
	case err != nil:
		return err
	}
	x.beginTurn(leave)
	return nil
}
