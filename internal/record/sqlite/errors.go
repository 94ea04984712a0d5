package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"gatehouse/internal/fault"
)

// errStorage is the sentence that people see when a write cannot be made.
const errStorage = "The gateway cannot write to its storage right now"

// reason returns in a few words why a write cannot be made.
func reason(err error) string {
	switch code := codeOf(err); {
	case isFull(err), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "it is full"
	case errors.Is(err, errReplaced):
		return errReplaced.Error()
	case errors.Is(err, errStalled):
		return "it does not answer"
	case errors.Is(err, unix.EROFS), code == sqlite3.SQLITE_READONLY:
		return "it can only be read"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not write to the database"
	case isDamage(err):
		return "the database is damaged"
	default:
		return "it reports an error"
	}
}

// codeOf returns SQLite's primary code of an error, or 0 if it is not one of SQLite.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isDisk reports whether err is the storage's own, so that no statement of the
// batch can be trusted, rather than one statement's.
func isDisk(err error) bool {
	return slices.Contains([]int{
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT,
		sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PERM,
	}, codeOf(err))
}

// isCorrupt reports whether err means for certain that no transaction will reach the file
// any more, because its pages contradict each other.
func isCorrupt(err error) bool {
	return slices.Contains([]int{sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT}, codeOf(err))
}

// isBusy reports whether err means that another process has the file open.
func isBusy(err error) bool { return codeOf(err) == sqlite3.SQLITE_BUSY }

// isFull reports whether err means that the disk is full.
func isFull(err error) bool { return codeOf(err) == sqlite3.SQLITE_FULL }

// errInUse is the error of a database that another process has open; name begins the
// sentence.
func errInUse(name string, err error) error {
	return fault.Wrap(fault.Unavailable,
		name+" is in use by another process: if that is the gateway, ask it with gatehouse doctor or gatehouse journal verify, or stop it; else find the process with fuser", err)
}

// classify turns a violated constraint into the fault that it means.
func classify(err error) error {
	e, ok := errors.AsType[*sqlitedriver.Error](err)
	switch {
	case !ok || codeOf(err) != sqlite3.SQLITE_CONSTRAINT:
		return err
	case e.Code() == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fault.Wrap(fault.NotFound, "The account or station does not exist", err)
	default:
		return fault.Wrap(fault.Conflict, "It exists already", err)
	}
}

// isDamage reports whether err means that a database file is damaged, rather than that
// its disk is full, busy or absent, or that the file may not be used.
func isDamage(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, errDamagedFile) || errors.Is(err, errDamaged) || errors.Is(err, sql.ErrNoRows) {
		return true
	}
	e, ok := errors.AsType[*sqlitedriver.Error](err)
	if !ok {
		_, isPath := errors.AsType[*fs.PathError](err)
		_, isNumber := errors.AsType[unix.Errno](err)
		_, isFault := errors.AsType[*fault.Error](err)
		return !isPath && !isNumber && !isFault
	}
	switch codeOf(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT,
		sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
		return true
	case sqlite3.SQLITE_IOERR:
		return e.Code() == sqlite3.SQLITE_IOERR_READ || e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ
	}
	return false
}
