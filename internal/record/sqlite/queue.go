package sqlite

import (
	"slices"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// maxKept bounds the records that wait in memory while the disk takes nothing;
// past it the oldest are dropped and counted.
const maxKept = 20_000

// errStalled is the error of a caller that waits for a record while the disk does not
// answer, or is so slow that its record was dropped.
var errStalled = fault.New(fault.Unavailable, "The storage does not answer")

// op is one use case that waits for its transaction: it is written now or not at all.
//
// Or it is one record that is kept: it stays in the queue until it is written, however
// often the disk fails. When the disk fails for the first time, the record is refused: it
// goes to the system log, and then the caller is answered.
type op struct {
	change  func(*transaction) error // nil: records alone
	records []site.Record
	done    chan error // capacity 1; nil: no caller waits
	err     error      // of the change alone, after a transaction
	refused bool       // of a kept record
}

// queue hands ops to the writer goroutine. Those that are kept keep their order among
// themselves.
type queue struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex // mu guards what follows
	ops     []*op
	kept    []*op
	urgent  bool      // a caller waits for a kept record; at times also if it has been answered
	writing []*op     // kept records of the transaction in flight
	began   time.Time // when the transaction in flight began; zero: none is
	failing bool      // the disk failed or stalled at the last try
	lost    int       // kept records dropped since the last that was written
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

// keep queues a record. refused are the records that the disk does not take, and why: while
// it fails and after close this one, and those that were dropped for it.
func (q *queue) keep(o *op) (refused []*op, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return []*op{o}, errStopping
	}
	q.kept = append(q.kept, o)
	if q.failing {
		refused = refuse([]*op{o})
	} else if o.done != nil {
		q.urgent = true
	}
	q.signal()
	return append(refused, q.bound()...), errStalled
}

// refuse marks records as refused, and returns those that were not.
func refuse(kept []*op) (refused []*op) {
	for _, o := range kept {
		if !o.refused {
			o.refused = true
			refused = append(refused, o)
		}
	}
	return refused
}

// putBack notes that a transaction failed, and puts its records back at the front.
func (q *queue) putBack(lost int) (refused []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	refused = q.fail()
	q.lost += lost
	q.kept = append(q.writing[:len(q.writing):len(q.writing)], q.kept...)
	q.writing = nil
	return append(refused, q.bound()...)
}

// stalled notes that the disk does not answer, if a transaction has been in flight for
// that long.
func (q *queue) stalled(long time.Duration) (refused []*op, stalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.began.IsZero() || time.Since(q.began) < long {
		return nil, false
	}
	return q.fail(), true
}

// fail refuses every record; mu is held.
func (q *queue) fail() (refused []*op) {
	q.failing, q.urgent = true, false
	return append(refuse(q.writing), refuse(q.kept)...)
}

// bound drops the oldest records past the bound and refuses them; mu is held.
func (q *queue) bound() (refused []*op) {
	over := max(len(q.kept)-maxKept, 0)
	dropped := q.kept[:over:over]
	q.kept = q.kept[over:]
	q.lost += over
	return refuse(dropped)
}

// take returns the next batch: at most maxBatch use cases and kept records each.
func (q *queue) take(maxBatch int) (ops, kept []*op, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops, q.ops = split(q.ops, maxBatch)
	kept, q.kept = split(q.kept, maxBatch)
	lost, q.lost = q.lost, 0
	q.urgent = q.urgent && len(q.kept) > 0
	q.writing, q.began = kept, time.Now()
	return ops, kept, lost
}

// split cuts a batch off the front; the rest gets its own array, so that what was
// written does not stay reachable.
func split(all []*op, most int) (batch, rest []*op) {
	if len(all) <= most {
		return all, nil
	}
	return all[:most:most], slices.Clone(all[most:])
}

// waiting returns what the queue wants.
func (q *queue) waiting() demand {
	q.mu.Lock()
	defer q.mu.Unlock()
	urgent := len(q.ops) > 0 || q.urgent
	return demand{
		urgent: urgent, work: urgent || len(q.kept) > 0 || q.lost > 0,
		full: len(q.kept) >= maxBatch, closed: q.closed,
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
	for _, o := range q.writing {
		if o.done != nil && !o.refused {
			o.done <- nil
		}
	}
	q.writing, q.failing = nil, false
}

// inMemory returns how many records are in memory alone.
func (q *queue) inMemory() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.kept) + len(q.writing)
}

// giveUp refuses what waits, as the database is closed. unwritten counts these records, and
// those that were dropped since the last that was written.
func (q *queue) giveUp() (refused []*op, unwritten int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fail(), len(q.kept) + len(q.writing) + q.lost
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
