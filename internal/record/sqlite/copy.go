package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/site"
)

// The copy is a small file with everything of the database but the journal: who may
// open what. It holds a line with a SHA-256, and after that a database of its own with
// an empty journal, which continues where the original's ended. It is written after
// changes: once an hour if something was added, and within copySoon if something was
// revoked, so that no revoked access is restored from it.
const (
	copyEvery = time.Hour
	copySoon  = 10 * time.Second // bounds what a client that logs in and out can have written
	copyTitle = "gatehouse copy 1 "
)

// metaVersion is the key of table meta whose value is replaced by a random one at each
// change of who may open what. A copy of the same schema with the same value has the
// same accounts, sessions, stations and grants, or one of the two is damaged.
const metaVersion = "access_version"

// change is do for a change of accounts, sessions, stations or grants; taken means that
// access is revoked. The copy follows.
func (db *DB) change(ctx context.Context, taken bool, change func(*transaction) error, records ...site.Record) error {
	err := db.do(ctx, func(t *transaction) error {
		if err := change(t); err != nil {
			return err
		}
		return t.renewVersion()
	}, records...)
	if err == nil {
		db.copyAgain(taken)
	}
	return err
}

// renewVersion makes every copy one of an earlier state.
func (t *transaction) renewVersion() error { return t.setMeta(metaVersion, uuid.NewString()) }

// copyAgain has the copy written, soon when access was revoked.
func (db *DB) copyAgain(taken bool) {
	if db.copier != nil {
		db.copier.changed(taken)
	}
}

// copier writes the copy in a goroutine of its own, so that no caller waits for it.
type copier struct {
	write  func() error
	failed func(error) // called with the result of each try
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}

	mu     sync.Mutex // mu guards what follows
	stale  bool
	urgent bool
}

func newCopier(write func() error, failed func(error)) *copier {
	return &copier{
		write: write, failed: failed,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// changed notes that the copy is out of date.
func (c *copier) changed(urgent bool) {
	c.mu.Lock()
	c.stale = true
	c.urgent = c.urgent || urgent
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// due reports whether the copy is out of date, and how old it may become.
func (c *copier) due() (stale bool, every time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.urgent {
		return c.stale, copySoon
	}
	return c.stale, copyEvery
}

// run writes the copy when it is due, until stop is closed.
func (c *copier) run() {
	defer close(c.done)
	timer := time.NewTimer(copyEvery)
	defer timer.Stop()
	var last time.Time // of a try
	for {
		select {
		case <-c.stop:
			if stale, _ := c.due(); stale {
				c.try()
			}
			return
		case <-c.wake:
		case <-timer.C:
		}
		stale, every := c.due()
		if left := time.Until(last.Add(every)); stale && left <= 0 {
			c.try()
			last = time.Now()
		} else if stale {
			timer.Reset(left)
		}
	}
}

// try writes the copy; one that fails is tried again when it is due.
func (c *copier) try() {
	c.mu.Lock()
	urgent := c.urgent
	c.stale, c.urgent = false, false
	c.mu.Unlock()
	err := c.write()
	if err != nil {
		c.changed(urgent)
	}
	c.failed(err)
}

// close writes what is due; false when the disk of the copy does not answer in time.
func (c *copier) close(patience time.Duration) bool {
	close(c.stop)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// writeCopy writes the copy of a database file to path. A power cut leaves the old copy
// or the new one.
func writeCopy(ctx context.Context, from, path string) error {
	content, err := extract(ctx, from)
	if err != nil {
		return fmt.Errorf("copying who may open what: %w", err)
	}
	if cp, err := loadCopy(ctx, content); err != nil {
		return fmt.Errorf("reading the copy back: %w", err)
	} else if err := cp.Close(); err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	text := slices.Concat([]byte(copyTitle+hex.EncodeToString(sum[:])+"\n"), content)
	if err := durable.Write(path, text, 0o600); err != nil {
		return fmt.Errorf("writing the copy to %s: %w", path, err)
	}
	return nil
}

// extract creates the copy of a database file, in memory.
func extract(ctx context.Context, from string) (content []byte, err error) {
	mem, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	mem.SetMaxOpenConns(1)
	texts, err := schemas()
	if err != nil {
		return nil, err
	}
	if err := applyFrom(ctx, mem, texts, 0); err != nil {
		return nil, err
	}
	if _, err := mem.ExecContext(ctx, "ATTACH ? AS source", dsn(from, "mode=ro")); err != nil {
		return nil, err
	}
	if err := extractTables(ctx, mem); err != nil {
		return nil, err
	}
	if _, err := mem.ExecContext(ctx, "DETACH source"); err != nil {
		return nil, err
	}
	err = onConnection(ctx, mem, func(c memoryFile) error {
		content, err = c.Serialize() //nolint:misspell // the driver's word
		return err
	})
	return content, err
}

// extractTables copies the tables of the attached source, as they are at one moment.
func extractTables(ctx context.Context, mem *sql.DB) error {
	tables, err := smallTables(ctx, mem)
	if err != nil {
		return err
	}
	tx, err := mem.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, table := range tables {
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO main."+table+" SELECT * FROM source."+table); err != nil { //nolint:gosec // the name is of our own schema
			return fmt.Errorf("copying %s: %w", table, err)
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE main.journal_ends SET (first, anchor, last, hash, bytes) =
		(SELECT last + 1, hash, last, hash, 0 FROM source.journal_ends)`)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// smallTables lists every table but the journal's, each behind those that it refers to.
func smallTables(ctx context.Context, q queryer) (names []string, err error) {
	rows, err := q.QueryContext(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'journal%' AND name NOT LIKE 'sqlite%' ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// memoryFile is what the driver's connections can do with a database in memory.
type memoryFile interface {
	Serialize() ([]byte, error) //nolint:misspell // as above
	Deserialize(content []byte) error
}

func onConnection(ctx context.Context, db *sql.DB, use func(memoryFile) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(driver any) error {
		c, ok := driver.(memoryFile)
		if !ok {
			return errors.New("the driver has no databases in memory")
		}
		return use(c)
	})
}

// bringForward migrates a copy that an older version has written to this version's
// schema.
func bringForward(ctx context.Context, cp *sql.DB) error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	version, err := schemaOf(ctx, cp)
	if err != nil {
		return err
	}
	if version > len(texts) {
		return errors.New("the copy is of a newer version")
	}
	return applyFrom(ctx, cp, texts, version)
}

// errNoCopy means that there is no copy, or a damaged one.
var errNoCopy = errors.New("there is no sound copy")

// readCopy opens the copy at path, in memory. errNoCopy when there is none that is
// sound.
func readCopy(ctx context.Context, path string) (*sql.DB, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCopy, err)
	}
	line, content, _ := bytes.Cut(text, []byte("\n"))
	sum := sha256.Sum256(content)
	if string(line) != copyTitle+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%w: %s was changed", errNoCopy, filepath.Base(path))
	}
	cp, err := loadCopy(ctx, content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCopy, err)
	}
	return cp, nil
}

// loadCopy opens the database of a copy in memory, and checks it.
func loadCopy(ctx context.Context, content []byte) (*sql.DB, error) {
	mem, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	mem.SetMaxOpenConns(1)
	err = onConnection(ctx, mem, func(c memoryFile) error { return c.Deserialize(content) })
	if err == nil {
		err = quickCheck(ctx, mem)
	}
	if err == nil {
		_, err = readEnds(ctx, mem)
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return mem, nil
}
