package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// mirroredRecords is how many of the newest records a mirror has: those that a start reads.
	mirroredRecords = examined
	// mostReopenDelay bounds the wait between two tries to open a file that is mirrored. Each
	// wait is laterShare times as long as the try took, and at least retryDelay.
	mostReopenDelay = time.Minute
)

// openMirror opens a database in memory in the place of one that cannot be written, or is
// damaged on a disk on which it cannot be set aside: its disk is read-only or failing, or
// its files are those of another user. It has what can be read of the file, or else of the
// copy; of the journal the newest records. A write fails, as on a full disk, and is a try to
// open the file: once that succeeds, the database goes on with the file.
func openMirror(ctx context.Context, cfg Config, why error) (*DB, error) {
	copied, _, unread := readCopy(ctx, cfg.Copy)
	if unread == nil {
		defer func() { _ = copied.Close() }()
	}
	from := cfg.Path
	for _, mark := range []string{rescuedMark, olderMark} { // about to take its place
		if exists(cfg.Path + mark) {
			from = cfg.Path + mark
		}
	}
	r := rescuer{from: from, reading: readOnly(from) + "&vfs=unix", copied: copied, proof: readProof(ctx, cfg.Path, copied)}
	if !r.readable(ctx) {
		if copied == nil {
			return nil, why
		}
		r.reading = "file::memory:?_dqs=0" // each of many queries could take as long as the first
	}
	_, err := r.save(ctx, mirroredRecords)
	if err == nil {
		err = migrate(ctx, r.next, "", schemas())
	}
	if err != nil {
		return nil, errors.Join(why, err, r.close())
	}
	db, err := newDB(ctx, cfg, r.next, connect(r.memory+"_dqs=0&_pragma=query_only(1)", readers), func(*sql.Conn) error { return nil })
	if err != nil {
		return nil, errors.Join(why, err)
	}
	db.log.Error("the database cannot be written; what can be read of it is in memory until it can", "error", why)
	db.mirrored, db.retry = why, time.Now().Add(retryDelay)
	db.part = true
	db.publish()
	return db, nil
}

// readable reports whether anything can be read of the database.
func (r *rescuer) readable(ctx context.Context) bool {
	db := connect(r.reading+salvage, 1)
	version, err := schemaOf(ctx, db)
	return errors.Join(err, db.Close()) == nil && version > 0
}

// reopen tries to open the file of a database that is mirrored, or that was removed or replaced,
// and goes on with it. The error is why it cannot be written.
func (db *DB) reopen() error {
	if db.mirrored == nil && db.suspect.Load() && !db.replaced() {
		db.suspect.Store(false)
	} else if db.mirrored == nil && db.suspect.Load() {
		db.mirrored = errReplaced
		db.log.Error("the files of the database were removed or replaced while it is in use; it is written anew, and what is there is set aside")
	}
	if db.mirrored == nil || time.Now().Before(db.retry) {
		return db.mirrored
	}
	began := time.Now()
	var err error
	if db.files.Load() != nil {
		err = db.writeAnew()
	}
	var found *DB
	if err == nil {
		found, err = openSound(context.Background(), db.cfg)
	}
	if err != nil {
		db.mirrored = err
		if db.files.Load() != nil {
			db.mirrored = errors.Join(errReplaced, err)
		}
		db.retry = time.Now().Add(min(max(laterShare*time.Since(began), retryDelay), mostReopenDelay))
		return err
	}
	former := db.writing
	db.conn.close()
	db.conn, db.writing, db.span, db.statesAt, db.mirrored = found.conn, found.writing, found.span, found.statesAt, nil
	db.files.Store(found.files.Load())
	db.suspect.Store(false)
	reading := db.reading.Swap(found.reader())
	if err := errors.Join(reading.Close(), former.Close()); err != nil {
		db.log.Warn("what was open before cannot be closed", "error", err)
	}
	db.rescued.Store(found.rescued.Load())
	db.publish()
	db.copyAgain(true)
	db.log.Info("the database can be written again")
	return nil
}
