package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	sqlitedriver "modernc.org/sqlite"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// Snapshot writes a whole, consistent copy of the database to path, for its owner alone;
// when it returns nil, the copy is on the disk. It reads like any reader: no write waits for
// it. Unavailable when there is no room for it, or the disk fails; then nothing is left at
// path.
func (db *DB) Snapshot(ctx context.Context, path string) error {
	return replaceFile(path, func(partial string) error { return snapshot(ctx, db.reader(), partial) })
}

// snapshot copies with SQLite's online backup, within one read transaction, so that
// what others write meanwhile neither gets into the copy nor starts it again.
func snapshot(ctx context.Context, db *sql.DB, path string) error {
	var size int64
	err := db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&size)
	if err != nil {
		return storageError(err)
	}
	if err := durable.CheckRoom(filepath.Dir(path), size); err != nil { // which the journal needs
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) //nolint:gosec // the path is the caller's
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The database cannot be copied to "+path, err)
	}
	defer func() { _ = f.Close() }()
	err = copyPages(ctx, db, f)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Wrap(fault.Unavailable, "The database cannot be copied to "+path+": check free space with df and the disk with dmesg", err)
}

const (
	// copyStep is how many pages are copied at a time; each is on the disk before the
	// next comes, because a commit beside it waits for what the disk has queued: on a
	// slow card that is a tenth of a second, and not the copy as a whole.
	copyStep = 256
	// copyPragmas leave it to copyPages to see that the copy is on the disk; a copy that
	// breaks off is removed.
	copyPragmas = "mode=rw&_pragma=synchronous(off)&_pragma=journal_mode(off)&_pragma=cache_size(-512)"
)

// copyPages copies everything to the file, as it is at one moment.
func copyPages(ctx context.Context, db *sql.DB, f *os.File) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := schemaOf(ctx, tx); err != nil { // reading is what begins the transaction
		return err
	}
	return conn.Raw(func(driver any) (err error) {
		from, ok := driver.(interface {
			NewBackup(to string) (*sqlitedriver.Backup, error)
		})
		if !ok {
			return errors.New("the driver cannot copy a database")
		}
		copying, err := from.NewBackup(dsn(f.Name(), copyPragmas))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, copying.Finish()) }()
		for more := true; more; {
			if more, err = copying.Step(copyStep); err != nil {
				return err
			}
			if err := errors.Join(ctx.Err(), unix.Fdatasync(int(f.Fd()))); err != nil {
				return err
			}
		}
		return nil
	})
}

// quickCheck finds most damage of a database file without comparing every index.
func quickCheck(ctx context.Context, q queryer) error { return pragmaCheck(ctx, q, "quick_check(1)") }

// pragmaCheck runs one of SQLite's checks; errDamagedFile with its first finding.
func pragmaCheck(ctx context.Context, q queryer, check string) error {
	var verdict string
	if err := q.QueryRowContext(ctx, "PRAGMA "+check).Scan(&verdict); err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	if verdict != "ok" {
		return fmt.Errorf("checking the database: %w: %s", errDamagedFile, verdict)
	}
	return nil
}

// errDamagedFile means that SQLite finds a file damaged.
var errDamagedFile = errors.New("the file is damaged")

// replaceFile has build write a database, brings it to the disk and renames it to
// path. A power cut or an error leaves what was there under that name.
func replaceFile(path string, build func(partial string) error) error {
	partial := path + ".partial"
	err := removeDatabase(partial)
	if err == nil {
		err = build(partial)
	}
	if err == nil {
		err = durable.Sync(partial)
	}
	if err == nil {
		err = durable.Rename(partial, path)
	}
	if err != nil { // the disk may be full
		return errors.Join(err, removeDatabase(partial))
	}
	return nil
}

// sideFiles are the suffixes of the files that make up a database, its own last.
func sideFiles() []string { return []string{"-wal", "-shm", "-journal", ""} }

// removeDatabase removes a database that may not be there.
func removeDatabase(path string) (err error) {
	for _, suffix := range sideFiles() {
		err = errors.Join(err, removeQuietly(path+suffix))
	}
	return err
}

// removeQuietly removes a file that may not be there.
func removeQuietly(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
