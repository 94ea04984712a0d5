package kit

import (
	"net/http"
	"sync/atomic"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// mostTurn is how long a turn lasts at most: a client that does not take its answer keeps
// nobody waiting for longer.
const mostTurn = 100 * time.Millisecond

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
	return limit.NewQueue[caller](processors-1, limit.OldestFirst, nil)
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
	}
	return caller{strangers, limit.Network(x.Req.Remote()).String()}
}

// turn is a slot of a request among those whose answers are computed and written.
type turn struct {
	leave func()
	limit *time.Timer
	over  atomic.Bool
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
		t.leave()
	}
}

// awaitTurn waits for a turn, unless x has one. Doors need none and are waited for; all else
// has turns by caller, so that no number of requests of one caller delays the door of
// another for longer than one answer takes, or another caller for more than one of its
// answers each. A request that waits may be evicted. The error is that of a client that has
// gone before its turn came.
func (x *Exchange) awaitTurn() error {
	answering := x.status != 0 && !x.stream // it must not be evicted any more: a part of its answer is on its way
	if x.turn != nil && (answering || !x.turn.over.Load()) {
		return nil
	}
	evictable := x.working && !x.stream
	if evictable {
		x.slot.Release()
		x.conn.slot.Release()
	}
	who := x.caller()
	leave, err := x.kit.turns.EnterLate(x.Req.Context(), caller{class: who.class}, who)
	if evictable {
		x.slot.Hold()
		x.conn.slot.Hold()
	}
	if err != nil {
		return err
	}
	t := &turn{leave: leave}
	t.limit = time.AfterFunc(mostTurn, t.release)
	x.turn = t
	return nil
}

// reads reports whether a route only reads: it has its turn before it is served, because
// its work is the answer. Others wait for disks, hashes and stations first.
func (rt *Route) reads() bool { return rt.Method == http.MethodGet }
