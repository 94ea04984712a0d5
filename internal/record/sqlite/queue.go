package sqlite

import (
	"errors"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// maxKept bounds the records that wait in memory while the disk takes nothing;
// past it the oldest are dropped and counted.
const maxKept = 20_000

// A caller that waits for a record receives errOverflow if it was dropped, errStalled
// if the disk does not answer.
var (
	errOverflow = errors.New("too many records wait for the disk")
	errStalled  = fault.New(fault.Unavailable, "The storage does not answer")
)

// op is one use case that waits for its transaction: it is written now or not at
// all.
type op struct {
	change  func(*transaction) error // nil: records alone
	records []site.Record
	done    chan error // capacity 1
}

// kept is one record that stays in the queue until it is written, however often the disk
// fails.
type kept struct {
	site.Record
	result chan error // capacity 1: receives the result of the first try; nil: no caller waits
	logged bool       // whether the system log has it, because the disk failed
}

// queue hands ops and records to the writer goroutine. Records keep their order
// among themselves.
type queue struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex // mu guards what follows
	ops     []*op
	records []kept
	urgent  int       // records that a caller waits for
	writing []kept    // records of the transaction in flight
	began   time.Time // when the transaction in flight began; zero: none is
	failing bool      // the disk failed or stalled at the last try
	lost    int       // records dropped since the last that was written
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

// cancel removes an op; false when it is no longer in the queue.
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

// keep queues a record; false after close. unlogged are the records that the system log
// must have: while the disk fails, this one, and those that were dropped for it.
func (q *queue) keep(k kept) (unlogged []site.Record, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	if q.failing {
		unlogged = append(unlogged, k.Record)
		k.logged = true
		k.answer(errStalled)
	}
	q.records = append(q.records, k)
	if k.result != nil {
		q.urgent++
	}
	q.signal()
	return append(unlogged, q.bound()...), true
}

// putBack puts the records of the transaction back at the front of the queue, after it
// failed.
func (q *queue) putBack(lost int) (unlogged []site.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost += lost
	q.records = append(q.writing[:len(q.writing):len(q.writing)], q.records...)
	q.writing = nil
	return q.bound()
}

// fail notes that the disk failed or stalled. unlogged are the records that the system log
// must have, and waiting the callers that are to be answered once it has them.
func (q *queue) fail() (unlogged []site.Record, waiting []chan error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed()
}

// failed is fail; mu is held.
func (q *queue) failed() (unlogged []site.Record, waiting []chan error) {
	q.failing = true
	for _, records := range [][]kept{q.writing, q.records} {
		for i := range records {
			k := &records[i]
			if k.result != nil {
				waiting = append(waiting, k.result)
				k.result = nil
			}
			if !k.logged {
				k.logged = true
				unlogged = append(unlogged, k.Record)
			}
		}
	}
	q.urgent = 0
	return unlogged, waiting
}

// stalled is fail, if a transaction has been in flight for that long.
func (q *queue) stalled(long time.Duration) (unlogged []site.Record, waiting []chan error, stalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.began.IsZero() || time.Since(q.began) < long {
		return nil, nil, false
	}
	unlogged, waiting = q.failed()
	return unlogged, waiting, true
}

// bound drops the oldest records past the bound and returns those that were not
// logged; mu is held.
func (q *queue) bound() (unlogged []site.Record) {
	over := max(len(q.records)-maxKept, 0)
	dropped := q.records[:over:over]
	q.records = q.records[over:]
	for i := range dropped {
		k := &dropped[i]
		if k.result != nil {
			q.urgent--
			k.answer(errOverflow)
		}
		if !k.logged {
			unlogged = append(unlogged, k.Record)
		}
	}
	q.lost += over
	return unlogged
}

// answer sends the result to the caller that waits for the record, once.
func (k *kept) answer(err error) {
	if k.result != nil {
		k.result <- err
		k.result = nil
	}
}

// take returns the next batch: at most maxBatch ops and records each.
func (q *queue) take(maxBatch int) (ops []*op, records []kept, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops, q.ops = split(q.ops, maxBatch)
	records, q.records = split(q.records, maxBatch)
	for i := range records {
		if records[i].result != nil {
			q.urgent--
		}
	}
	lost, q.lost = q.lost, 0
	q.writing, q.began = records, time.Now()
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

// waiting returns what the queue wants.
func (q *queue) waiting() demand {
	q.mu.Lock()
	defer q.mu.Unlock()
	urgent := len(q.ops) > 0 || q.urgent > 0
	return demand{
		urgent: urgent, work: urgent || len(q.records) > 0 || q.lost > 0,
		full: len(q.records) >= maxBatch, closed: q.closed,
	}
}

// demand is what a queue wants of the writer.
type demand struct {
	urgent bool // a caller waits for an answer
	work   bool // there is something to write
	full   bool // more records wait than one transaction takes
	closed bool
}

// ended notes that no transaction is in flight, and whether its records are durable.
func (q *queue) ended(written bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.began = time.Time{}
	if !written {
		return
	}
	for i := range q.writing {
		q.writing[i].answer(nil)
	}
	q.writing, q.failing = nil, false
}

// kept returns how many records are in memory alone, and how many were dropped since the
// last that was written.
func (q *queue) kept() (waiting, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.records) + len(q.writing), q.lost
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
