package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
)

// watchPragmas open a file only to look at it: neither the file nor its log nor the
// index of the log is written, also where a killed gateway left a log to recover. SQLite
// requires a file for the index, but uses none of it: [Open] creates an empty one.
const watchPragmas = "mode=ro&_dqs=0&_busy_timeout=2000&readonly_shm=1&_pragma=cache_size(-512)"

// FileState is how a database file stands.
type FileState struct {
	Size, Log   int64     // bytes of the file, and of the log beside it
	Schema      int       // its version; 0: the file is empty
	Known       int       // the newest version that this program knows
	Damage      string    // what is wrong with its pages or tables; "" is nothing
	First, Last uint64    // seq of the oldest and the newest record of the journal; 0 when there is none
	Floor       time.Time // the last time that was sure; zero before the first
}

// Check is [CheckFile] of the open database.
func (db *DB) Check(ctx context.Context) (FileState, error) {
	state, err := sized(db.path)
	if err != nil {
		return state, err
	}
	return state.judged(ctx, db.path, state.look(ctx, db.reading))
}

// CheckFile looks at a database file that no gateway has open, and changes nothing, not
// even the files beside it. Damage is no error. What was found before an error is returned
// with it. Errors: NotFound; Forbidden; Invalid when it is no database; Unavailable when
// it cannot be read, or a gateway has it open; that of ctx.
func CheckFile(ctx context.Context, path string) (FileState, error) {
	state, db, err := watch(path)
	if err != nil {
		return state, err
	}
	defer func() { _ = db.Close() }()
	return state.judged(ctx, path, state.look(ctx, db))
}

// judged returns the state with the error of look, which it wraps.
func (s *FileState) judged(ctx context.Context, path string, err error) (FileState, error) {
	switch {
	case err == nil:
		return *s, nil
	case ctx.Err() != nil:
		return *s, ctx.Err()
	default:
		return *s, unusable(path, err)
	}
}

// CheckJournal walks the chain of the journal in a database file, as [VerifyFile]
// does, and as [CheckFile] changes nothing. It has the errors of both.
func CheckJournal(ctx context.Context, path string) (journal.Verdict, error) {
	_, db, err := watch(path)
	if err != nil {
		return journal.Verdict{}, err
	}
	defer func() { _ = db.Close() }()
	verdict, err := verify(ctx, db)
	if err != nil && ctx.Err() != nil {
		return verdict, ctx.Err()
	}
	return verdict, err
}

// sized returns what a file says of itself without being opened.
func sized(path string) (state FileState, err error) {
	texts, err := schemas()
	if err != nil {
		return state, err
	}
	state.Known = len(texts)
	if state.Size, err = sizeOf(path); err == nil {
		err = unix.Access(path, unix.R_OK) // opening and closing it would take the locks away that this process may have on it
	}
	if err != nil {
		return state, unseen(path, err)
	}
	state.Log, _ = sizeOf(path + "-wal")
	return state, nil
}

// watch opens a file to look at it, and says how large it is.
func watch(path string) (FileState, *sql.DB, error) {
	state, err := sized(path)
	if err != nil {
		return state, nil, err
	}
	_, unlogged := sizeOf(path + "-wal")
	_, unindexed := sizeOf(path + "-shm")
	options := watchPragmas
	switch {
	case unlogged != nil, unindexed != nil && state.Log == 0:
		options = lonePragmas // nobody has it open, and all is in the file itself
	case unindexed != nil:
		return state, nil, fault.New(fault.Unavailable,
			"The database "+path+" has a log without an index, and cannot be looked at unchanged: start the gateway, which brings it in order")
	}
	db, err := sql.Open("sqlite", dsn(path, options))
	if err != nil {
		return state, nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return state, db, nil
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// unseen gives the error of a file that cannot even be found its kind.
func unseen(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, "There is no database at "+path, err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Forbidden, "The database "+path+" may not be read by this user", err)
	default:
		return fault.Wrap(fault.Unavailable, "The database "+path+" cannot be read: check the disk with dmesg", err)
	}
}

// look fills in what the file holds, the slow part last.
func (s *FileState) look(ctx context.Context, db *sql.DB) (err error) {
	if s.Schema, err = schemaOf(ctx, db); err != nil || s.Schema == 0 {
		return err
	}
	e, unread := readEnds(ctx, db)
	if unread == nil && e.last.seq > e.anchor.seq {
		s.First, s.Last = e.anchor.seq+1, e.last.seq
	}
	if s.Schema <= s.Known && unread == nil {
		s.Floor, unread = floorIn(ctx, db)
	}
	err = quickCheck(ctx, db)
	switch {
	case errors.Is(err, errDamagedFile):
		s.Damage = err.Error()
	case err == nil && unread != nil && s.Schema <= s.Known:
		s.Damage = unread.Error()
	default:
		return err
	}
	return ctx.Err()
}
