package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// start reads where the journal ends and starts the writer goroutine.
func (db *DB) start(ctx context.Context) error {
	conn, err := db.writing.Conn(ctx)
	if err != nil {
		return fmt.Errorf("opening the writer: %w", err)
	}
	if err := errors.Join(persistLog(conn), db.readTail(ctx, conn)); err != nil {
		return errors.Join(err, conn.Close())
	}
	db.statesAt = db.tail.seq
	stmts, err := prepare(ctx, conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	db.stall = time.AfterFunc(stallAfter, db.watchStall)
	db.stall.Stop()
	go db.write(conn, stmts)
	return nil
}

// do runs a use case: change and records in one durable transaction. When ctx
// ends first, the error is Timeout and the use case is certainly not written; so
// while its transaction is under way, only the disk's own answer counts.
func (db *DB) do(ctx context.Context, change func(*transaction) error, records ...site.Record) error {
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
	db.stamp(&r)
	result := make(chan error, 1)
	if !db.keep(kept{Record: r, result: result}) {
		return errStopping
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.Timeout, errStorage, ctx.Err())
	}
}

// AppendLater implements [journal.Store].
func (db *DB) AppendLater(r site.Record) {
	db.stamp(&r)
	db.keep(kept{Record: r})
}

// keep queues a record. While the disk fails, the record is also written to the system
// log, and so are records that do not fit in the queue.
func (db *DB) keep(k kept) bool {
	unlogged, ok := db.queue.keep(k)
	if !ok {
		unlogged = append(unlogged, k.Record)
	}
	db.logKept(unlogged)
	return ok
}

// logKept writes records that the disk did not take to the system log.
func (db *DB) logKept(records []site.Record) {
	for _, r := range records {
		journal.Log(db.log, r)
	}
}

// refuse answers those that wait for records which the disk did not take: the system log
// has the records before a door opens.
func (db *DB) refuse(unlogged []site.Record, waiting []chan error, err error) {
	db.logKept(unlogged)
	for _, result := range waiting {
		result <- err
	}
}

// watchStall is called when a transaction may have been in flight for stallAfter.
func (db *DB) watchStall() {
	db.hearing.Lock()
	defer db.hearing.Unlock()
	if unlogged, waiting, stalled := db.queue.stalled(stallAfter); stalled {
		db.refuse(unlogged, waiting, errStalled)
		db.heard(errStalled)
	}
}

// heard reports how the last transaction ended, or that it hangs; hearing is held.
func (db *DB) heard(err error) {
	if heard := db.watcher.Load(); heard != nil {
		(*heard)(err)
	}
}

// write is the writer goroutine: it gathers and commits until the queue is closed
// and empty, or closed and the disk takes nothing.
func (db *DB) write(conn *sql.Conn, stmts statements) {
	defer close(db.stopped)
	defer func() { _ = conn.Close() }()
	defer stmts.close()
	var took time.Duration // by the last transaction
	for {
		want := db.queue.waiting()
		switch {
		case want.urgent || want.full || (want.work && want.closed):
		case want.work:
			db.idle(batchDelay(took), true)
		case want.closed:
			if db.saved != db.tail.seq {
				_ = db.saveEnds(stmts) // readEnds finds the end without it
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
		err := db.commit(conn, stmts)
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
func (db *DB) commit(conn *sql.Conn, stmts statements) error {
	ops, records, lost := db.queue.take(maxBatch)
	db.stall.Reset(stallAfter)
	defer db.stall.Stop()
	results, err := db.tryBatch(conn, stmts, ops, records, lost)
	written := err == nil
	if !written {
		unlogged, waiting := db.queue.fail()
		db.refuse(unlogged, waiting, err)
		db.logKept(db.queue.putBack(lost))
		if len(ops) > 0 && len(records)+lost > 0 && isFull(err) {
			results, err = db.tryBatch(conn, stmts, ops, nil, 0)
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
	for i, o := range ops {
		if err != nil {
			o.done <- err
		} else {
			o.done <- results[i]
		}
	}
	return err
}

// tryBatch is writeBatch with the writer's own state undone when it fails.
func (db *DB) tryBatch(conn *sql.Conn, stmts statements, ops []*op, records []kept, lost int) ([]error, error) {
	before := db.span
	results, err := db.writeBatch(conn, stmts, ops, records, lost)
	if err != nil {
		db.span = before
		_, _ = stmts.rollback.Exec() // fails where SQLite has rolled back itself
		return nil, fault.Wrap(fault.Unavailable, errStorage, err)
	}
	db.publish()
	return results, nil
}

// writeBatch makes one transaction of the ops and the records. An op that fails by
// its own fault is undone alone; a failing disk fails the batch.
func (db *DB) writeBatch(conn *sql.Conn, stmts statements, ops []*op, records []kept, lost int) ([]error, error) {
	if _, err := stmts.begin.Exec(); err != nil {
		return nil, fmt.Errorf("beginning: %w", err)
	}
	db.rows = db.rows[:0]
	if lost > 0 {
		loss := site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{
			Count: lost, Detail: "storage took nothing for so long that memory overflowed; the system log has these records",
		}}
		db.stamp(&loss)
		db.rows = append(db.rows, db.chainOn(&loss))
	}
	for i := range records {
		r := records[i].Record // a copy: watchStall reads the original meanwhile
		db.rows = append(db.rows, db.chainOn(&r))
	}
	results := make([]error, len(ops))
	for i, o := range ops {
		var found []site.Record
		found, results[i] = db.applyChange(conn, o)
		if results[i] != nil {
			if isDisk(results[i]) {
				return nil, results[i]
			}
			continue
		}
		for _, records := range [][]site.Record{o.records, found} {
			for j := range records {
				db.rows = append(db.rows, db.chainOn(&records[j]))
			}
		}
	}
	if err := db.insert(stmts, db.rows); err != nil {
		return nil, err
	}
	if db.moved || db.tail.seq-db.saved >= endsLag {
		if err := db.saveEnds(stmts); err != nil {
			return nil, err
		}
	}
	if err := db.floor.hold(&transaction{conn: conn}); err != nil {
		return nil, fmt.Errorf("writing the time floor: %w", err)
	}
	if _, err := stmts.commit.Exec(); err != nil {
		return nil, fmt.Errorf("committing: %w", err)
	}
	return results, nil
}

// saveEnds has journal_ends name the end of the journal.
func (db *DB) saveEnds(stmts statements) error {
	if _, err := stmts.ends.Exec(int64(db.tail.seq), db.tail.hash[:], db.bytes); err != nil { //nolint:gosec // seq fits for ever
		return fmt.Errorf("writing the journal's end: %w", err)
	}
	db.saved, db.moved = db.tail.seq, false
	return nil
}

// applyChange runs an op's change so that it can be undone alone. It returns the records
// that the change found to write.
func (db *DB) applyChange(conn *sql.Conn, o *op) ([]site.Record, error) {
	if o.change == nil {
		return nil, nil
	}
	t := &transaction{conn: conn}
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
