package sqlite

import (
	"sync"

	"gatehouse/internal/site"
)

// maxLater bounds the records that wait in memory while the disk takes nothing;
// past it the oldest are dropped and counted.
const maxLater = 20_000

// op is one use case that waits for its transaction.
type op struct {
	change  func(*transaction) error // nil: records alone
	records []site.Record
	done    chan error // capacity 1
}

// queue hands ops and records to the writer goroutine.
type queue struct {
	wake chan struct{} // capacity 1

	mu     sync.Mutex // mu guards what follows
	ops    []*op
	later  []site.Record
	lost   int // records dropped from later since the last that was written
	closed bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// add queues an op; false after close.
func (q *queue) add(o *op) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.ops = append(q.ops, o)
	q.mu.Unlock()
	q.signal()
	return true
}

// addLater queues a record that nobody waits for.
func (q *queue) addLater(r site.Record) {
	q.mu.Lock()
	if len(q.later) >= maxLater {
		q.later = q.later[1:]
		q.lost++
	}
	q.later = append(q.later, r)
	q.mu.Unlock()
	q.signal()
}

// putBack returns records of a failed transaction to the front of the line.
func (q *queue) putBack(records []site.Record, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost += lost
	if over := len(records) + len(q.later) - maxLater; over > 0 {
		over = min(over, len(records))
		records = records[over:]
		q.lost += over
	}
	q.later = append(records[:len(records):len(records)], q.later...)
}

// take gives what waits: at most maxBatch ops and records each. eager reports
// whether somebody waits for it.
func (q *queue) take(maxBatch int) (ops []*op, later []site.Record, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops, q.ops = split(q.ops, maxBatch)
	later, q.later = split(q.later, maxBatch)
	lost, q.lost = q.lost, 0
	return ops, later, lost
}

// split cuts a batch off the front; the rest gets its own array, so that what
// was written does not stay reachable.
func split[T any](all []T, most int) (batch, rest []T) {
	if len(all) <= most {
		return all, nil
	}
	return all[:most:most], append([]T(nil), all[most:]...)
}

// waiting reports whether ops wait, whether records wait, and whether the queue
// is closed.
func (q *queue) waiting() (ops, later, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ops) > 0, len(q.later) > 0 || q.lost > 0, q.closed
}

// kept is how many records wait in memory.
func (q *queue) kept() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.later)
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
