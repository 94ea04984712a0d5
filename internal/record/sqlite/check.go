package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// lonePragmas open a whole file that no process writes to, also in a folder that cannot
	// be written to.
	lonePragmas = "mode=ro&_dqs=0&immutable=1"
	// logPragmas open a file with the log that a killed gateway has left, and write
	// neither. SQLite requires a file for the index of the log, but uses none of it:
	// [Open] creates an empty one.
	logPragmas = "mode=ro&_dqs=0&_busy_timeout=2000&readonly_shm=1&_pragma=cache_size(-512)"
	// copiedPragmas are for a file that was copied with its log and without the index,
	// which SQLite creates.
	copiedPragmas = "mode=ro&_dqs=0&_busy_timeout=2000"
)

// readFile calls use with a database file that no gateway has open, or a copy of one. The
// file and its log are not changed. name begins messages. Errors: NotFound; Forbidden;
// Invalid when it is damaged or no database of ours; Unavailable when it cannot be read or
// a gateway has it open; that of ctx.
func readFile[T any](ctx context.Context, path, name string, use func(*sql.DB) (T, error)) (got T, err error) {
	// Opening and closing the file would release the locks that this process has on it.
	if err := unix.Access(path, unix.R_OK); err != nil {
		return got, unusable(ctx, name, err)
	}
	db := connect(readOnly(path), 1)
	got, err = use(db)
	return got, unusable(ctx, name, errors.Join(err, db.Close()))
}

// readOnly returns the driver's name for a database file that no gateway has open.
func readOnly(path string) string {
	switch {
	case !hasLog(path):
		return dsn(path, lonePragmas)
	case exists(path + "-shm"):
		return dsn(path, logPragmas)
	default:
		return dsn(path, copiedPragmas)
	}
}

// hasLog reports whether the database has a log that SQLite uses: one that has frames, and a header
// as it was written (https://www.sqlite.org/fileformat2.html#the_write_ahead_log). Another it
// ignores; with readonly_shm it tries again and again to read that.
func hasLog(path string) bool {
	const headerSize, word = 32, 4
	f, err := os.Open(path + "-wal") //nolint:gosec // the path is the administrator's
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // SQLite reports why it cannot be read
	}
	defer func() { _ = f.Close() }()
	header := make([]byte, headerSize+1)
	if _, err := io.ReadFull(f, header); err != nil {
		return false
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch binary.BigEndian.Uint32(header) {
	case 0x377f0682:
	case 0x377f0683:
		order = binary.BigEndian
	default:
		return false
	}
	var sum [2]uint32
	for at := 0; at < headerSize-2*word; at += 2 * word {
		sum[0] += order.Uint32(header[at:]) + sum[1]
		sum[1] += order.Uint32(header[at+word:]) + sum[0]
	}
	return sum == [2]uint32{binary.BigEndian.Uint32(header[headerSize-2*word:]), binary.BigEndian.Uint32(header[headerSize-word:])}
}

// sizeOf returns the size of a file; 0 where there is none.
func sizeOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}

// unusable decides whether the file or the disk is to blame for an error of reading a
// database file. An error that is Conflict or Invalid already is returned as it is.
func unusable(ctx context.Context, name string, err error) error {
	switch {
	case err == nil || fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, name+" cannot be found", err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Forbidden, name+" may not be read by this user", err)
	case errors.As(err, new(unix.Errno)):
		return fault.Wrap(fault.Unavailable, name+" cannot be read: check the disk with dmesg", err)
	}
	switch codeOf(err) {
	case sqlite3.SQLITE_BUSY:
		return errInUse(name, err)
	case 0, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH:
		return fault.Wrap(fault.Invalid, name+" is damaged, or no database of gatehouse", err)
	default:
		return fault.Wrap(fault.Unavailable, name+" cannot be read: check the disk with dmesg", err)
	}
}

// Check is [CheckFile] of the open database.
func (db *DB) Check(ctx context.Context) (state site.DatabaseState, err error) {
	state, err = look(ctx, db.cfg.Path, db.reader())
	return state, unusable(ctx, "The database "+db.cfg.Path, err)
}

// CheckFile looks at a database file that no gateway has open. Damage is no error. What
// was found before an error is returned with it. Errors: NotFound; Forbidden; Invalid when
// it is no database; Unavailable when it cannot be read, or a gateway has it open; that of
// ctx.
func CheckFile(ctx context.Context, path string) (site.DatabaseState, error) {
	return readFile(ctx, path, "The database "+path, func(db *sql.DB) (site.DatabaseState, error) { return look(ctx, path, db) })
}

// look reads what the file holds, the slow part last.
func look(ctx context.Context, path string, db *sql.DB) (s site.DatabaseState, err error) {
	s.Size, s.Log = sizeOf(path), sizeOf(path+"-wal")
	if s.Schema, err = schemaOf(ctx, db); err != nil || s.Schema == 0 {
		return s, err
	}
	e, unread := readEnds(ctx, db)
	if unread == nil && e.last.seq > e.anchor.seq {
		s.First, s.Last = e.anchor.seq+1, e.last.seq
	}
	err = quickCheck(ctx, db)
	switch {
	case errors.Is(err, errDamagedFile):
		s.Damage = err.Error()
	case err == nil && unread != nil && s.Schema <= len(schemas()):
		s.Damage = unread.Error()
	default:
		return s, err
	}
	return s, ctx.Err()
}
