package sqlite

import (
	"errors"
	"slices"
	"sync"

	"gatehouse/internal/site"
)

// maxKept bounds the records that wait in memory while the disk takes nothing;
// past it the oldest are dropped and counted.
const maxKept = 20_000

// errOverflow tells who waits for a record that it was dropped.
var errOverflow = errors.New("too many records wait for the disk")

// op is one use case that waits for its transaction: it is written now or not at
// all.
type op struct {
	change  func(*transaction) error // nil: records alone
	records []site.Record
	done    chan error // capacity 1
}

// kept is one record that stays in line until it is written, however often the disk
// fails.
type kept struct {
	site.Record
	told   chan error // capacity 1: hears how the first try ended; nil: nobody waits
	logged bool       // whether the system log has it, because the disk failed
}

// queue hands ops and records to the writer goroutine. Records keep their order
// among themselves.
type queue struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex // mu guards what follows
	ops     []*op
	records []kept
	urgent  int // records that somebody waits for
	taken   int // records that are being written
	lost    int // records dropped since the last that was written
	closed  bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// add queues an op; false after close.
func (q *queue) add(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.ops = append(q.ops, o)
	q.signal()
	return true
}

// cancel takes an op back; false when it is no longer in line.
func (q *queue) cancel(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.ops, o)
	if i < 0 {
		return false
	}
	q.ops = slices.Delete(q.ops, i, i+1)
	return true
}

// keep queues a record; false after close. dropped are the records that had to go
// for it.
func (q *queue) keep(k kept) (dropped []kept, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	q.records = append(q.records, k)
	if k.told != nil {
		q.urgent++
	}
	q.signal()
	return q.bound(), true
}

// putBack returns the records of a failed transaction to the front of the line;
// nobody waits for them any more. dropped are those for which there is no room.
func (q *queue) putBack(records []kept, lost int) (dropped []kept) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
	q.lost += lost
	q.records = append(records[:len(records):len(records)], q.records...)
	return q.bound()
}

// bound drops the oldest records past the bound; mu is held.
func (q *queue) bound() (dropped []kept) {
	over := max(len(q.records)-maxKept, 0)
	dropped, q.records = q.records[:over:over], q.records[over:]
	for i := range dropped {
		if dropped[i].told != nil {
			q.urgent--
		}
	}
	q.lost += over
	return dropped
}

// take gives the next batch: at most maxBatch ops and records each.
func (q *queue) take(maxBatch int) (ops []*op, records []kept, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops, q.ops = split(q.ops, maxBatch)
	records, q.records = split(q.records, maxBatch)
	for i := range records {
		if records[i].told != nil {
			q.urgent--
		}
	}
	lost, q.lost = q.lost, 0
	q.taken = len(records)
	return ops, records, lost
}

// split cuts a batch off the front; the rest gets its own array, so that what was
// written does not stay reachable.
func split[T any](all []T, most int) (batch, rest []T) {
	if len(all) <= most {
		return all, nil
	}
	return all[:most:most], append([]T(nil), all[most:]...)
}

// waiting reports whether somebody waits for an answer, whether anything is in
// line at all, and whether the queue is closed.
func (q *queue) waiting() (urgent, work, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	urgent = len(q.ops) > 0 || q.urgent > 0
	return urgent, urgent || len(q.records) > 0 || q.lost > 0, q.closed
}

// written says that the records that were taken are durable.
func (q *queue) written() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
}

// kept is how many records are in memory alone.
func (q *queue) kept() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.records) + q.taken
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
