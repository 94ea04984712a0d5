package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

const (
	// maxBatch bounds one transaction, so that no caller waits behind a long one.
	maxBatch = 512
	// A record that no caller waits for waits for others: laterShare times as long as the last
	// transaction took, within these bounds. So such records take a tenth of the time of a
	// slow disk or processor at most.
	laterShare = 9
	leastDelay = 5 * time.Millisecond
	mostDelay  = time.Second
	// retryDelay is how long the writer waits before it tries a failing disk again.
	retryDelay = time.Second
	// stallAfter is how long a transaction may take before the disk counts as failing,
	// though no error comes. It is less than an unlock waits for its record.
	stallAfter = 1500 * time.Millisecond
)

// do runs a use case: change and records in one durable transaction. When ctx
// ends first, the error is Timeout and the use case is certainly not written; so
// while its transaction is under way, only the disk's own answer counts.
func (db *DB) do(ctx context.Context, change func(*transaction) error, records ...site.Record) error {
	if err := ctx.Err(); err != nil { // the writer could be faster than the select below
		return fault.Wrap(fault.Timeout, errStorage, err)
	}
	for i := range records {
		db.stamp(&records[i])
	}
	o := &op{change: change, records: records, done: make(chan error, 1)}
	if !db.queue.add(o) {
		return errStopping
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if db.queue.cancel(o) {
			return fault.Wrap(fault.Timeout, errStorage, ctx.Err())
		}
	}
	select {
	case err := <-o.done:
		return err
	case <-db.abandoned:
		return errStopping
	}
}

// errStopping is the error of every call after Close.
var errStopping = fault.New(fault.Unavailable, "The gateway is stopping")

// Keep implements [journal.Store].
func (db *DB) Keep(ctx context.Context, r site.Record) error {
	result := make(chan error, 1)
	db.keep(r, result)
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.Timeout, errStorage, ctx.Err())
	}
}

// AppendLater implements [journal.Store].
func (db *DB) AppendLater(r site.Record) { db.keep(r, nil) }

// keep queues a record. While the disk fails, and after Close, the record is also written to
// the system log, and so are records that do not fit in the queue.
func (db *DB) keep(r site.Record, done chan error) {
	db.stamp(&r)
	db.refuse(db.queue.keep(&op{records: []site.Record{r}, done: done}))
}

// refuse writes records that the disk did not take to the system log, and then answers the
// callers that wait for them: the log has a record before a door opens.
func (db *DB) refuse(kept []*op, err error) {
	for _, o := range kept {
		journal.Log(db.log, o.records[0])
		if o.done != nil {
			o.done <- err
		}
	}
}

// watchStall is called when a transaction may have been in flight for stallAfter.
func (db *DB) watchStall() {
	db.hearing.Lock()
	defer db.hearing.Unlock()
	if refused, stalled := db.queue.stalled(stallAfter); stalled {
		db.refuse(refused, errStalled)
		db.heard(errStalled)
	}
}

// heard reports how the last transaction ended, or that it hangs; hearing is held. The
// sentence of an error is [reason].
func (db *DB) heard(err error) {
	if !errors.Is(err, journal.ErrTight) {
		err = fault.Wrap(fault.Unavailable, reason(err), err)
	}
	if heard := db.watcher.Load(); heard != nil {
		(*heard)(err)
	}
}

// write is the writer goroutine: it gathers and commits until the queue is closed
// and empty, or closed and the disk takes nothing.
func (db *DB) write() {
	defer close(db.stopped)
	defer func() { db.conn.close() }() // the present one
	var took time.Duration             // by the last transaction
	for {
		want := db.queue.waiting()
		switch {
		case want.urgent || want.full || (want.work && want.closed):
		case want.work:
			db.idle(batchDelay(took), true)
		case want.closed:
			if db.mirrored == nil && db.saved != db.tail.seq {
				_ = db.saveEnds() // readEnds finds the end without it
			}
			return
		case db.tight:
			db.idle(retryDelay, false)
			db.lookForRoom()
			continue
		default:
			<-db.queue.wake
			continue
		}
		began := time.Now()
		err := db.commit()
		took = time.Since(began)
		if err != nil && !want.urgent {
			if want.closed {
				return
			}
			db.idle(retryDelay, false)
		}
	}
}

// batchDelay returns how long a record that no caller waits for waits for others, after a
// transaction that took so long.
func batchDelay(took time.Duration) time.Duration {
	return min(max(laterShare*took, leastDelay), mostDelay)
}

// idle waits, or returns earlier when a caller begins to wait for an answer: for
// records alone, waiting for others saves transactions, and a failing disk is not
// tried again and again. With batch, it also returns once a transaction is full.
func (db *DB) idle(most time.Duration, batch bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-db.queue.wake:
			if want := db.queue.waiting(); want.urgent || want.closed || batch && want.full {
				return
			}
		}
	}
}

// commit takes what waits, writes it as one transaction and answers. Where the disk
// is full, use cases get a second try without the records that wait in memory: one
// of them may be what frees the disk.
func (db *DB) commit() error {
	ops, kept, lost := db.queue.take(maxBatch)
	db.stall.Reset(stallAfter)
	defer db.stall.Stop()
	err := db.tryBatch(slices.Concat(kept, ops), lost)
	written := err == nil
	if !written {
		db.refuse(db.queue.putBack(lost), err)
		if len(ops) > 0 && len(kept)+lost > 0 && isFull(err) {
			err = db.tryBatch(ops, 0)
		}
	}
	db.queue.ended(written)
	if isCorrupt(err) {
		db.noteDamage(err)
		db.breaking.Do(func() { close(db.broken) })
	}
	heard := db.reckon(err)
	db.hearing.Lock()
	db.heard(heard)
	db.hearing.Unlock()
	for _, o := range ops {
		o.done <- cmp.Or(err, o.err)
	}
	return err
}

// tryBatch is writeBatch with the writer's own state undone when it fails.
func (db *DB) tryBatch(ops []*op, lost int) error {
	if err := db.reopen(); err != nil {
		return fault.Wrap(fault.Unavailable, errStorage, err)
	}
	before := db.span
	if err := db.writeBatch(ops, lost); err != nil {
		db.span = before
		_ = db.conn.exec("ROLLBACK") // fails where SQLite has rolled back itself
		return fault.Wrap(fault.Unavailable, errStorage, err)
	}
	if db.tail.seq > before.tail.seq {
		db.steps.wrote = time.Now()
	}
	db.publish()
	return nil
}

// writeBatch makes one transaction of the ops. One that fails by its own fault is undone
// alone; a failing disk fails the batch.
func (db *DB) writeBatch(ops []*op, lost int) error {
	if err := db.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	if lost > 0 {
		loss := site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{
			Count: lost, Detail: "storage took nothing for so long that memory overflowed; the system log has these records",
		}}
		db.stamp(&loss)
		if err := db.chainOn(loss); err != nil {
			return err
		}
	}
	for _, o := range ops {
		var found []site.Record
		if found, o.err = db.applyChange(o); isDisk(o.err) {
			return o.err
		} else if o.err != nil {
			continue
		}
		if err := db.chainAll(o.records, found); err != nil {
			return err
		}
	}
	if db.moved || db.tail.seq-db.saved >= endsLag {
		if err := db.saveEnds(); err != nil {
			return err
		}
	}
	t := &transaction{conn: db.conn.Conn}
	if err := errors.Join(db.floor.hold(t), db.steps.hold(t)); err != nil {
		return fmt.Errorf("writing the time floor: %w", err)
	}
	if err := db.conn.exec("COMMIT"); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// saveEnds has journal_ends name the end of the journal.
func (db *DB) saveEnds() error {
	err := db.conn.exec("UPDATE journal_ends SET last = ?, hash = ?, bytes = ?, evidence = ?",
		int64(db.tail.seq), db.tail.hash[:], db.bytes, db.evidence) //nolint:gosec // seq fits for ever
	if err != nil {
		return fmt.Errorf("writing the journal's end: %w", err)
	}
	db.saved, db.moved = db.tail.seq, false
	return nil
}

// applyChange runs an op's change so that it can be undone alone. It returns the records
// that the change found to write.
func (db *DB) applyChange(o *op) ([]site.Record, error) {
	if o.change == nil {
		return nil, nil
	}
	t := &transaction{conn: db.conn.Conn, log: db.log}
	if _, err := t.exec("SAVEPOINT op"); err != nil {
		return nil, err
	}
	before := db.span
	err := o.change(t)
	if err != nil && !isDisk(err) {
		db.span = before
		if _, undo := t.exec("ROLLBACK TO op"); undo != nil {
			return nil, undo
		}
		err = classify(err)
	}
	if _, release := t.exec("RELEASE op"); release != nil {
		return nil, errors.Join(err, release)
	}
	return t.records, err
}
