// Package sqlite keeps everything that must survive a power cut: accounts,
// sessions, grants, stations and the journal. It is the only importer of the
// database driver and the only place with SQL.
//
// Promise: when a method that writes returns nil, its change and its journal
// record are on the disk (fdatasync), together, in one transaction. All writes go
// through one goroutine that gathers the waiting writes into one transaction, so
// that concurrent callers share an fdatasync.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	sqlitedriver "modernc.org/sqlite" // registers the driver "sqlite" too

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// readers is how many connections read; a reader never waits for the writer.
const readers = 3

// writerPragmas make a commit durable (synchronous FULL) and the connection
// strict; readerPragmas are the same for a connection that cannot write. The index of
// SQLite's log is in memory (unix-excl): in a file, each transaction would write up to five
// pages of it to the disk. So no other process can use an open database.
const (
	writerPragmas = "vfs=" + dataSync + "&_txlock=immediate&_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=on&_dqs=0&_defensive=1" +
		"&_pragma=cache_size(-1024)&_pragma=journal_size_limit(4194304)"
	readerPragmas = "vfs=unix-excl&mode=ro&_busy_timeout=5000&_dqs=0&_pragma=cache_size(-512)"
)

// Config is what to open.
type Config struct {
	Path   string // the database file; its folder must exist
	Boot   site.BootID
	Logger *slog.Logger

	// Copy is where the copy of everything but the journal is kept; "": there is none, and
	// a damaged database is refused.
	Copy string
	// Damaged is called once, when a damaged page is found in the open database. Copied is
	// called with the result of each try to write the copy, and Rescued with what was done
	// with a damaged database, see [DB.Rescued]. Each may be called from any goroutine, also
	// before Open returns; nil: not called.
	Damaged, Copied func(error)
	Rescued         func(story string)
	// CarryFor is how long the records of a damaged database are carried over, the newest
	// first: no door opens meanwhile. What is older stays in the database that was set aside.
	// 0: 5 s.
	CarryFor time.Duration
}

// DB is the open database. Its methods are safe for concurrent use. Errors of
// methods that write are fault.Unavailable when the disk would not take it, and
// fault.Conflict or fault.NotFound where the method states it.
type DB struct {
	clock   site.Clock // set by UseClock
	cfg     Config
	log     *slog.Logger
	writing *sql.DB                // closed with the writer
	reading atomic.Pointer[sql.DB] // see [DB.reader]
	queue   *queue
	durable atomic.Pointer[span] // the writer's span after the last transaction, for other goroutines
	stopped chan struct{}        // closed when the writer goroutine has ended
	// abandoned is closed when Close abandons a disk that hangs.
	abandoned chan struct{}
	watcher   atomic.Pointer[func(error)]
	stall     *time.Timer    // fires when the disk takes too long for a transaction
	revoked   atomic.Bool    // the copy is out of date: access was revoked
	changed   atomic.Bool    // the same: something else was changed
	beside    sync.WaitGroup // the goroutines that write the copy and the head
	hurry     chan struct{}  // capacity 1: the copy is written without a delay
	copyHas   atomic.Uint64  // see [DB.Copied]
	onCopied  atomic.Pointer[func(error)]
	rescued   atomic.Pointer[string]
	lastRun   site.BootID // see [DB.LastRun]
	unsound   sync.Once   // see [DB.noteDamage]
	breaking  sync.Once
	broken    chan struct{} // see [DB.Broken]
	hearing   sync.Mutex    // held during calls of the watcher, so that they come in order

	// The writer goroutine's own.
	conn writerConn
	span
	searched uint64                   // up to here all evidence was removed; of the one that prunes
	mirrored error                    // why the file could not be opened, and memory has what could be read of it; nil: it is open
	retry    time.Time                // when to try again
	files    atomic.Pointer[identity] // the open files; nil: it is in memory
	suspect  atomic.Bool              // other files may have their names; the writer makes sure
	tight    bool                     // a transaction did not fit on the disk, and there has been no room since
	statesAt uint64                   // the tail when states were saved last; see [states]
	encoded  []byte                   // the present record
}

// span is what the writer knows of the journal, as the present transaction leaves it.
type span struct {
	first    uint64 // the oldest kept seq, or the one that will be
	tail     chain  // where it ends
	saved    uint64 // where it ends by the row of journal_ends; see [endsLag]
	moved    bool   // the row of journal_ends was changed for an end that it does not name yet
	bytes    int64  // of its bodies
	evidence int64  // the part of these that has a share of its own
	floor    floor  // the time floor that it holds
	steps    steps
	part     bool // older records are on the disk, and not in the mirror
}

// Open opens or creates the database, brings it to this version's schema and
// starts its writer. A database of a newer version is refused untouched. With cfg.Copy, one
// that is damaged is set aside and replaced, see [DB.Rescued], and one that cannot be
// written is mirrored in memory; see [openMirror].
func Open(ctx context.Context, cfg Config) (*DB, error) {
	how := openSound
	if cfg.Copy == "" {
		how = open
	}
	db, err := how(ctx, cfg)
	switch {
	case isBusy(err):
		return nil, errInUse("The database "+cfg.Path, err)
	case err != nil && cfg.Copy != "" && ctx.Err() == nil && !fault.Is(err, fault.Conflict):
		db, err = openMirror(ctx, cfg, err)
	}
	if err != nil && isDisk(err) {
		err = fault.Wrap(fault.Unavailable, "The database "+cfg.Path+" cannot be opened: check free space with df and the disk with dmesg", err)
	}
	if err != nil {
		return nil, err
	}
	db.run()
	return db, nil
}

// open opens a database whose files take writes; its writer does not run yet.
func open(ctx context.Context, cfg Config) (*DB, error) {
	for _, suffix := range []string{"", "-wal"} {
		if err := createPrivate(cfg.Path + suffix); err != nil {
			return nil, err
		}
	}
	_ = createPrivate(cfg.Path + "-shm") // see logPragmas; a full disk has it, or does without
	writing := connect(dsn(cfg.Path, writerPragmas), 1)
	dropForeign(ctx, writing, cfg.Logger)
	if err := migrate(ctx, writing, cfg.Path, schemas()); err != nil {
		return nil, errors.Join(err, writing.Close())
	}
	// A copy of the file alone is readable from the start; a full disk has nothing to move.
	_, _ = writing.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	db, err := newDB(ctx, cfg, writing, connect(dsn(cfg.Path, readerPragmas), readers), persistLog)
	if err == nil {
		db.files.Store(identify(cfg.Path))
	}
	return db, err
}

// newDB returns a database with these connections; prepare is called with that of the writer.
func newDB(ctx context.Context, cfg Config, writing, reading *sql.DB, prepare func(*sql.Conn) error) (*DB, error) {
	db := &DB{
		cfg: cfg, log: cfg.Logger, writing: writing,
		queue: newQueue(), hurry: make(chan struct{}, 1), stopped: make(chan struct{}), broken: make(chan struct{}), abandoned: make(chan struct{}),
	}
	db.reading.Store(reading)
	conn, err := writing.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the writer: %w", err), db.closeFiles())
	}
	db.conn = writerConn{conn, make(map[string]*sql.Stmt)}
	if err := errors.Join(prepare(conn), db.readTail(ctx, conn)); err != nil {
		return nil, errors.Join(err, db.discard())
	}
	db.statesAt = db.tail.seq
	return db, nil
}

// run starts the goroutines.
func (db *DB) run() {
	db.stall = time.AfterFunc(stallAfter, db.watchStall)
	db.stall.Stop()
	if db.cfg.Copy != "" {
		db.beside.Go(db.keepCopy)
		db.beside.Go(db.keepHead)
	}
	db.beside.Go(db.write)
}

// discard closes a database that does not run.
func (db *DB) discard() error {
	db.conn.close()
	return db.closeFiles()
}

func (db *DB) closeFiles() error { return errors.Join(db.reader().Close(), db.writing.Close()) }

// reader returns the connections that read.
func (db *DB) reader() *sql.DB { return db.reading.Load() }

// UseClock sets the clock that stamps records. It is called once, before the
// first record: the clock itself starts from the time floor that is kept here.
func (db *DB) UseClock(clock site.Clock) { db.clock = clock }

// Watch implements [journal.Store]. The function is called from the writer's goroutine
// and must be quick.
func (db *DB) Watch(heard func(error)) { db.watcher.Store(&heard) }

// closeBudget is how long Close waits for a disk that hangs, that of the copy too.
const closeBudget = 5 * time.Second

// Close writes what is still queued and closes the file. What the disk does not take
// goes to the system log, and the error counts it. Close abandons a disk that hangs.
func (db *DB) Close() error {
	db.queue.close()
	ended := make(chan struct{})
	go func() { db.beside.Wait(); close(ended) }()
	select {
	case <-ended:
		return errors.Join(db.giveUp(), db.closeFiles())
	case <-time.After(closeBudget):
		close(db.abandoned)
		return errors.Join(db.giveUp(), errors.New("closing the database: the disk does not answer"))
	}
}

// Rescued returns a sentence on what was done because the database was damaged when it
// was opened; "" if it was not.
func (db *DB) Rescued() string {
	if story := db.rescued.Load(); story != nil {
		return *story
	}
	return ""
}

// noteRescue keeps what was done with a damaged database.
func (db *DB) noteRescue(story string) {
	db.rescued.Store(&story)
	if db.cfg.Rescued != nil {
		db.cfg.Rescued(story)
	}
}

// Broken returns a channel that is closed when a damaged page prevents transactions:
// only the next [Open] can repair that.
func (db *DB) Broken() <-chan struct{} { return db.broken }

// giveUp logs the records that are still in memory, including those of the transaction
// in flight.
func (db *DB) giveUp() error {
	refused, unwritten := db.queue.giveUp()
	db.refuse(refused, errStopping)
	if unwritten > 0 {
		return fmt.Errorf("closing the database: %d records were not written; the system log has them", unwritten)
	}
	return nil
}

// createPrivate makes the file readable by its owner alone before SQLite sees it;
// SQLite creates its side files with the same mode.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is the administrator's
	if errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(fault.Unavailable, "The database "+path+" cannot be opened by this user: return it to the gateway's with chown, as gatehouse doctor shows", err)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The database "+path+" cannot be written: check the disk with df and dmesg", err)
	}
	return f.Close()
}

// persistLog keeps SQLite's log and its index beside the file when it is closed,
// though all is in the file then: without them the database could not be opened
// again on a disk that has become full or read-only, and no door behind it.
func persistLog(conn *sql.Conn) error {
	return conn.Raw(func(driver any) error {
		control, ok := driver.(sqlitedriver.FileControl)
		if !ok {
			return errors.New("keeping the log: the driver cannot")
		}
		_, err := control.FileControlPersistWAL("main", 1)
		return err
	})
}

// connect returns a pool of at most so many connections to a file; see [dsn]. It opens none
// yet, so that their first use reports what is wrong.
func connect(name string, most int) *sql.DB {
	useDataSync()
	db, _ := sql.Open("sqlite", name) // fails without the driver
	db.SetMaxOpenConns(most)
	return db
}

// dsn returns the driver's name for a file; the driver reads options only after "file:".
func dsn(path, options string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options
}
