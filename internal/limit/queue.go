package limit

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull is the error of a queue that has no room for one more waiter.
var ErrFull = errors.New("too many are waiting")

// mostPaused is how long a queue hands out no slots at most, see [Queue.Pause].
const mostPaused = 100 * time.Millisecond

// Queue hands out a fixed number of slots. While all are taken, newcomers wait in flows
// within larger flows, which a path of keys names, the largest first. A free slot goes to
// the flow that has waited longest since its last slot, or else since it came, within it to
// such a smaller flow, and so on. So a flow waits for one slot of each other flow at most,
// however much those send. Safe for concurrent use.
type Queue[K comparable] struct {
	order Order
	room  func(level int, key K) int

	mu   sync.Mutex // mu guards everything below
	free int
	top  flow[K]

	urgent  int         // calls of Pause that have not been followed by Resume
	since   time.Time   // the pause began; zero: there is none
	earlier time.Time   // no pause begins before
	over    *time.Timer // ends the pause; nil: nothing waits for that
}

// Order is the order of the waiters of one smallest flow.
type Order bool

// The orders. NewestFirst is for clients that give up soon: the newest is the least likely
// to have left.
const (
	OldestFirst Order = false
	NewestFirst Order = true
)

// NewQueue returns a queue of that many slots; fewer than 1 count as 1. room returns how
// many may wait in the flow of a key at a level of the paths, 0 for any number; nil: any
// number everywhere.
func NewQueue[K comparable](slots int, order Order, room func(level int, key K) int) *Queue[K] {
	if room == nil {
		room = func(int, K) int { return 0 }
	}
	return &Queue[K]{order: order, room: room, free: max(1, slots)}
}

// flow is a flow, or the queue as a whole.
type flow[K comparable] struct {
	key     K
	parent  *flow[K]
	at      *list.Element // in the turns of the parent
	flows   map[K]*flow[K]
	turns   list.List // *flow, the next first, or in a smallest flow *Waiter, the oldest first
	waiting int
}

// Waiter waits for a slot, or has had its answer.
type Waiter[K comparable] struct {
	queue  *Queue[K]
	flow   *flow[K] // nil: it does not wait any more
	at     *list.Element
	answer chan error // capacity 1; nil in it is a slot
}

// Enter waits for a slot and returns the function that releases it. It returns [ErrFull]
// as [Queue.Join] does, also when it is evicted, and the error of ctx when that ends first.
func (q *Queue[K]) Enter(ctx context.Context, path ...K) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return q.EnterLate(ctx, path...)
}

// EnterLate is Enter for a ctx that may have ended: a slot that is free is acquired all the
// same. An HTTP client may send requests, close its half of the connection, and receive the
// answers.
func (q *Queue[K]) EnterLate(ctx context.Context, path ...K) (leave func(), err error) {
	w, err := q.Join(path...)
	if err != nil {
		return nil, err
	}
	if !w.Answered() {
		defer context.AfterFunc(ctx, func() { w.Cancel(ctx.Err()) })()
	}
	if err := w.Wait(); err != nil {
		return nil, err
	}
	return q.Leave, nil
}

// Join adds a waiter, which has its slot at once if one is free. Where a flow of the path
// has no room, it evicts the newest waiter of the largest flow within that, if that leaves
// it no smaller than the newcomer's becomes, and else returns [ErrFull].
func (q *Queue[K]) Join(path ...K) (*Waiter[K], error) {
	w := &Waiter[K]{queue: q, answer: make(chan error, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.top.waiting == 0 && q.free > 0 && !q.paused() {
		q.free--
		w.answer <- nil
		return w, nil
	}
	if !q.makeRoom(path) {
		return nil, ErrFull
	}
	q.push(w, path)
	q.resumeLater()
	return w, nil
}

// Answered reports whether Wait returns at once.
func (w *Waiter[K]) Answered() bool { return len(w.answer) > 0 }

// Wait returns nil when the waiter has its slot, and the error of its eviction or
// [Waiter.Cancel]. Call it once.
func (w *Waiter[K]) Wait() error { return <-w.answer }

// Cancel ends the wait with an error. It does nothing if it is over.
func (w *Waiter[K]) Cancel(err error) {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	w.cancel(err)
}

// cancel is Cancel; mu is held.
func (w *Waiter[K]) cancel(err error) {
	if w.flow != nil {
		w.remove(false)
		w.answer <- err
	}
}

// Leave releases a slot.
func (q *Queue[K]) Leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.serve()
}

// serve hands the free slots to those whose turn it is; mu is held.
func (q *Queue[K]) serve() {
	for q.free > 0 && q.top.waiting > 0 && !q.paused() {
		f := &q.top
		for f.flows != nil {
			f = f.turns.Front().Value.(*flow[K])
		}
		next := f.turns.Front()
		if q.order == NewestFirst {
			next = f.turns.Back()
		}
		w := next.Value.(*Waiter[K])
		w.remove(true)
		q.free--
		w.answer <- nil
	}
	q.resumeLater()
}

// push adds w to the flow of a path, and the flows that are missing; mu is held.
func (q *Queue[K]) push(w *Waiter[K], path []K) {
	f := &q.top
	f.waiting++
	for _, key := range path {
		next := f.flows[key]
		if next == nil {
			if f.flows == nil {
				f.flows = make(map[K]*flow[K])
			}
			next = &flow[K]{key: key, parent: f}
			next.at = f.turns.PushBack(next)
			f.flows[key] = next
		}
		f = next
		f.waiting++
	}
	w.flow, w.at = f, f.turns.PushBack(w)
}

// remove removes w from its flows. With served they have had their turn. mu is held.
func (w *Waiter[K]) remove(served bool) {
	w.flow.turns.Remove(w.at)
	for f := w.flow; f != nil; f = f.parent {
		f.waiting--
		switch {
		case f.parent == nil:
		case f.waiting == 0:
			f.parent.turns.Remove(f.at)
			delete(f.parent.flows, f.key)
		case served:
			f.parent.turns.MoveToBack(f.at)
		}
	}
	w.flow = nil
}

// makeRoom reports whether one more may wait in the flows of a path; mu is held.
func (q *Queue[K]) makeRoom(path []K) bool {
	flows := q.top.along(path)
	for level := len(flows); level > 0; level-- {
		f, room := flows[level-1], q.room(level-1, path[level-1])
		if room > 0 && f.waiting >= room && (level == len(path) || !f.evict(path[level:])) {
			return false
		}
	}
	return true
}

// along returns the flows of a path below f, as far as there are any.
func (f *flow[K]) along(path []K) (flows []*flow[K]) {
	for _, key := range path {
		if f = f.flows[key]; f == nil {
			break
		}
		flows = append(flows, f)
	}
	return flows
}

// evict evicts a waiter for a newcomer to the flow of a path below f, and reports whether
// it did.
func (f *flow[K]) evict(path []K) bool {
	own, held := f.flows[path[0]], 0
	if own != nil {
		held = own.waiting
	}
	if largest := f.largest(); largest.waiting >= held+2 {
		for largest.flows != nil {
			largest = largest.largest()
		}
		largest.turns.Back().Value.(*Waiter[K]).cancel(ErrFull)
		return true
	}
	return own != nil && len(path) > 1 && own.evict(path[1:])
}

// largest returns the flow within f that has the most waiters; of equals the last in turn.
func (f *flow[K]) largest() (largest *flow[K]) {
	for e := f.turns.Front(); e != nil; e = e.Next() {
		if next := e.Value.(*flow[K]); largest == nil || next.waiting >= largest.waiting {
			largest = next
		}
	}
	return largest
}

// Waiting returns how many wait.
func (q *Queue[K]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.top.waiting
}

// Pause hands out no slots until [Queue.Resume], because something urgent is in flight: a
// door is being opened. A pause lasts 100 ms at most, and no other begins for as long as it
// lasted, so that no sequence of doors stops the queue.
func (q *Queue[K]) Pause() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.urgent++
	if now := time.Now(); q.since.IsZero() && now.After(q.earlier) {
		q.since = now
	}
	q.resumeLater()
}

// Resume undoes one Pause.
func (q *Queue[K]) Resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.urgent--; q.urgent == 0 {
		q.endPause()
		q.serve()
	}
}

// paused reports whether a pause is in progress, and ends one that has lasted too long; mu
// is held.
func (q *Queue[K]) paused() bool {
	if !q.since.IsZero() && time.Since(q.since) >= mostPaused {
		q.endPause()
	}
	return !q.since.IsZero()
}

// resumeLater has a pause end in time if something waits for that; mu is held.
func (q *Queue[K]) resumeLater() {
	if q.over != nil || q.top.waiting == 0 || !q.paused() {
		return
	}
	q.over = time.AfterFunc(mostPaused-time.Since(q.since), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.over = nil
		q.serve()
	})
}

func (q *Queue[K]) endPause() {
	if q.over != nil {
		q.over.Stop()
		q.over = nil
	}
	if !q.since.IsZero() {
		now := time.Now()
		q.earlier, q.since = now.Add(now.Sub(q.since)), time.Time{}
	}
}
