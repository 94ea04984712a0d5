package access

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/fault"
)

const (
	// waitingStrangers, waitingLoopback and waitingKnown bound the logins of a lane that
	// wait for a slot. The first follows from the contract, section 1: an address gets in
	// while fewer than 64 others try.
	waitingStrangers, waitingLoopback, waitingKnown = 64, 64, 32
	// WaitingNetwork and Waiting bound the logins that wait for a slot: those from the
	// network, and all. Package gateway requires that they leave room for unlocks.
	WaitingNetwork = waitingStrangers + waitingKnown
	Waiting        = WaitingNetwork + waitingLoopback
	// maxTrusted and maxStranger bound those of one share: an account at one address
	// that is known for it, and an address that is not.
	maxTrusted, maxStranger = 16, 4
	// slotRetry is when a login that found no room should be retried.
	slotRetry = 2 * time.Second
)

// lane is one of the groups that take turns at the slots.
type lane uint8

const (
	laneStranger lane = iota // addresses from which the account was not logged in to
	laneLoopback             // this machine
	laneKnown                // accounts at addresses from which they were logged in to
	laneAdmin                // administrators' changes
)

// room returns how many logins may wait in the lane. Administrators' changes are not
// bounded.
func (l lane) room() int {
	return [...]int{laneStranger: waitingStrangers, laneLoopback: waitingLoopback, laneKnown: waitingKnown, laneAdmin: math.MaxInt}[l]
}

// share identifies what gets turns: a lane (only lane set), an account or a network
// within the lane, or one client within those.
type share struct {
	lane    lane
	account [32]byte
	client  string
}

// path is the position of a waiter: its lane, the larger share within the lane, and the
// smaller share within that.
type path [3]share

// queue bounds how many passwords are hashed at once, because each takes megabytes of
// memory and all of a core, and orders those that wait. The slot goes to the lane that
// has had none for the longest time, within it to such a share, within that to such a
// client, and within that to the login that has waited longest. So no login waits for
// more than one hash of each other share, however many logins a share sends. Safe for
// concurrent use.
type queue struct {
	mu      sync.Mutex // mu guards everything below
	free    int
	waiting []*waiter
	last    map[share]uint64 // of every share that waits: when it had its last turn, or else when it came
	served  uint64           // slots that were handed over so far: the time of last
}

// waiter is one login that waits.
type waiter struct {
	path path
	done chan error // capacity 1; nil in it is a slot
}

func newQueue(slots int) *queue { return &queue{free: slots, last: make(map[share]uint64)} }

// enter waits for a slot and returns a function that releases it. It returns Throttled
// at once when room logins of the same smallest share wait already, or when the lane is
// full. A full lane instead evicts a waiter of its largest share, with Throttled, where
// that makes room for another share's. It returns Unavailable when ctx ends first.
func (q *queue) enter(ctx context.Context, at path, room int) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable("waiting to hash a password", err)
	}
	w, err := q.join(at, room)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-w.done:
	case <-ctx.Done():
		if q.abandon(w) {
			return nil, unavailable("waiting to hash a password", ctx.Err())
		}
		err = <-w.done
	}
	if err != nil {
		return nil, err
	}
	return q.leave, nil
}

// join returns a waiter, which has its slot already where one is free.
func (q *queue) join(at path, room int) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &waiter{path: at, done: make(chan error, 1)}
	if q.free > 0 { // the queue is empty
		q.free--
		w.done <- nil
		return w, nil
	}
	if room > 0 && (q.waitingOf(at, 2) >= room || !q.makeRoom(at)) {
		return nil, errFull()
	}
	for level, s := range at {
		if q.waitingOf(at, level) == 0 {
			q.last[s] = q.served
		}
	}
	q.waiting = append(q.waiting, w)
	return w, nil
}

// errFull is the error when there is no room.
func errFull() error { return fault.Throttle("Too many logins at once; try again", slotRetry) }

// waitingOf counts the waiters of the share that a path has at a level.
func (q *queue) waitingOf(at path, level int) (n int) {
	for _, w := range q.waiting {
		if w.path[level] == at[level] {
			n++
		}
	}
	return n
}

// makeRoom reports whether one more login may wait in the lane. In a full lane it
// evicts the newest waiter of the client that has the most, if that keeps as many as the
// newcomer then has; where no client has two, a newcomer that has none evicts one of the
// larger share that has the most. So no client loses its last place while there are
// fewer other clients than places.
func (q *queue) makeRoom(at path) bool {
	if q.waitingOf(at, 0) < at[0].lane.room() {
		return true
	}
	victim := q.largest(at, 2)
	if victim < 0 && q.waitingOf(at, 2) == 0 {
		victim = q.largest(at, 1)
	}
	if victim < 0 {
		return false
	}
	w := q.waiting[victim]
	q.remove(victim)
	w.done <- errFull()
	return true
}

// largest returns the newest waiter of the share that has the most at a level of the
// lane, -1 if that would keep fewer than the newcomer's.
func (q *queue) largest(at path, level int) int {
	counts := make(map[share]int)
	for _, w := range q.waiting {
		if w.path[0] == at[0] {
			counts[w.path[level]]++
		}
	}
	largest, most := -1, counts[at[level]]+2 // more than the newcomer's share would have
	for i, w := range q.waiting {
		if n := counts[w.path[level]]; n >= most {
			largest, most = i, n
		}
	}
	return largest
}

// abandon removes a waiter, and reports whether it was still waiting.
func (q *queue) abandon(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.remove(i)
	}
	return i >= 0
}

// remove removes the waiter at i from the queue.
func (q *queue) remove(i int) {
	at := q.waiting[i].path
	q.waiting = slices.Delete(q.waiting, i, i+1)
	for level, s := range at {
		if q.waitingOf(at, level) == 0 {
			delete(q.last, s)
		}
	}
}

// leave releases a slot: the waiter whose turn it is gets it.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.free++
		return
	}
	next := 0
	for i, w := range q.waiting {
		if q.before(w.path, q.waiting[next].path) {
			next = i
		}
	}
	w := q.waiting[next]
	q.served++
	for _, s := range w.path {
		q.last[s] = q.served
	}
	q.remove(next)
	w.done <- nil
}

// before reports whether the turn of a is before that of b, which has waited longer than a
// or is a.
func (q *queue) before(a, b path) bool {
	for level := range a {
		if a[level] != b[level] {
			return q.last[a[level]] < q.last[b[level]] // where they are equal, b has waited longer
		}
	}
	return false
}
