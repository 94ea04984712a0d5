package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// MaxKept is how many records wait in memory at most.
const MaxKept = maxKept

// EndsLag is how far the row of journal_ends may be behind the journal.
const EndsLag = endsLag

// BatchDelay returns how long a record waits for others after a transaction that took so
// long.
var BatchDelay = batchDelay

// LimitPages makes the disk full: the file may not grow past its present size
// (full) or may grow again (!full).
func (db *DB) LimitPages(ctx context.Context, full bool) error {
	return db.do(ctx, func(t *transaction) error {
		var pages int
		if err := t.conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
		if !full {
			pages = 1 << 30
		}
		return t.conn.QueryRowContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Scan(&pages)
	})
}

// Hold keeps the writer busy until release is closed, and says when it has begun.
func (db *DB) Hold(release <-chan struct{}) (held <-chan struct{}) {
	begun := make(chan struct{})
	go func() {
		_ = db.do(context.Background(), func(*transaction) error {
			close(begun)
			<-release
			return nil
		})
	}()
	return begun
}

// Waiting is how many use cases wait for the writer.
func (db *DB) Waiting() int {
	db.queue.mu.Lock()
	defer db.queue.mu.Unlock()
	return len(db.queue.ops)
}

// LogTo has db log to w.
func (db *DB) LogTo(w io.Writer) { db.log = slog.New(slog.NewTextHandler(w, nil)) }

// Stopped is closed when the writer has ended.
func (db *DB) Stopped() <-chan struct{} { return db.stopped }

// Slow is a use case that calls begun when it is under way and waits for release.
func (db *DB) Slow(ctx context.Context, begun func(), release <-chan struct{}) error {
	return db.do(ctx, func(*transaction) error {
		begun()
		<-release
		return nil
	})
}

// ClosePools closes what Close left open, because the disk hung.
func (db *DB) ClosePools() error { return errors.Join(db.reader().Close(), db.writing.Close()) }

// MigrateBy opens the file and brings it to the schema that has so many more
// migrations than this version knows.
func MigrateBy(ctx context.Context, path string, more ...string) error {
	db := connect(dsn(path, writerPragmas), 1)
	return errors.Join(migrate(ctx, db, path, append(schemas(), more...)), db.Close())
}

// Schema is the version of the schema that this version of the program makes.
func Schema() (int, error) {
	return len(schemas()), nil
}

// AccessVersion is what a copy has to agree with.
func (db *DB) AccessVersion(ctx context.Context) (string, error) { return db.meta(ctx, metaVersion) }

// MakeBy makes a file with the first so many migrations, as an older version did.
func MakeBy(ctx context.Context, path string, version int) error {
	db := connect(dsn(path, writerPragmas), 1)
	return errors.Join(migrate(ctx, db, path, schemas()[:version]), db.Close())
}

// FloorIn is [DB.Floor] of a file that may be open elsewhere. The newest record comes
// first: once it does not hold the floor any more, table meta does.
func FloorIn(ctx context.Context, path string) (time.Time, error) {
	return readFile(ctx, path, "The database "+path, func(db *sql.DB) (time.Time, error) {
		newest, unread := newestRecord(ctx, db)
		saved, err := savedFloor(ctx, db)
		f := floor{sure: saved}
		f.follow(&newest)
		return fromMillis(f.sure), errors.Join(unread, err)
	})
}

// CopyDue reports whether the copy is out of date, because access was revoked or because
// of another change.
func (db *DB) CopyDue() (revoked, changed bool) { return db.revoked.Load(), db.changed.Load() }

// SetVersion sets the version of the schema of a closed file and nothing else, so that a
// test can let this version write to the database of "a newer one".
func SetVersion(ctx context.Context, path string, version int) error {
	db := connect(dsn(path, writerPragmas), 1)
	_, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	return errors.Join(err, db.Close())
}

// Exec changes a closed file, as a migration of another version would.
func Exec(ctx context.Context, path, text string) error {
	db := connect(dsn(path, writerPragmas), 1)
	_, err := db.ExecContext(ctx, text)
	return errors.Join(err, db.Close())
}

// BytesIn returns how many bytes the records of a file have, which may be open.
func BytesIn(ctx context.Context, path string) (sum int64, err error) {
	db := connect(dsn(path, readerPragmas), 1)
	err = db.QueryRowContext(ctx, "SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM journal").Scan(&sum)
	return sum, errors.Join(err, db.Close())
}

// RootsOf returns the numbers of the first page of a table of a closed file and of each of
// its indexes.
func RootsOf(ctx context.Context, path, table string) (pages []int64, err error) {
	return pagesOf(ctx, path, "SELECT rootpage FROM sqlite_schema WHERE tbl_name = ? AND rootpage > 0", table)
}

// LeavesOf returns the numbers of the pages of a table that have its rows, in their order.
func LeavesOf(ctx context.Context, path, table string) (pages []int64, err error) {
	return pagesOf(ctx, path, "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", table)
}

func pagesOf(ctx context.Context, path, query, table string) (pages []int64, err error) {
	db := connect(dsn(path, writerPragmas), 1)
	for n, unread := range each(ctx, db, column[int64], query, table) {
		pages, err = append(pages, n), errors.Join(err, unread)
	}
	return pages, errors.Join(err, db.Close())
}

// OnSync calls a function before each sync of a commit, and returns its error in place of the
// sync, until restore is called. No database may be open at either call.
func OnSync(call func() error) (restore func()) {
	useDataSync()
	former := logSync.sync
	logSync.sync = func(fd int) error {
		if err := call(); err != nil {
			return err
		}
		return former(fd)
	}
	return func() { logSync.sync = former }
}
