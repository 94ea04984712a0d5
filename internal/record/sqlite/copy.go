package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// The copy is a small database with everything of the original but the journal, which is
// empty and continues where the original's ended. A digest of who may open what shows
// whether a bit of it has changed, which SQLite cannot see. It is written after
// changes: once an hour if something was added, and within copySoon if something was
// revoked, so that no revoked access is restored from it.
const (
	copyEvery = time.Hour
	copySoon  = 10 * time.Second // bounds what a client that logs in and out can have written
	copyRetry = time.Minute      // after a failure
)

// metaVersion is the key of table meta whose value is replaced by a random one at each
// change of who may open what. A copy of the same schema with the same value has the
// same accounts, sessions, stations and grants, or one of the two is damaged.
const metaVersion = "access_version"

// metaSum is the key of table meta, in a copy alone, of the digest of who may open what.
const metaSum = "access_sum"

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
	every := copyEvery
	if taken {
		every = copySoon
	}
	if db.copier != nil {
		db.copier.schedule(every)
	}
}

// copier writes the copy when it is due, in goroutines of its own, so that no caller
// waits for it.
type copier struct {
	write   func() error // reports its result itself
	writing sync.Mutex   // held during a try

	mu    sync.Mutex  // mu guards what follows
	last  time.Time   // of a try
	due   time.Time   // when timer fires
	timer *time.Timer // runs the next try; nil: the copy is up to date
}

// schedule has the next try made so long after the last one, or earlier.
func (c *copier) schedule(every time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.last.Add(every)
	if c.timer != nil && !due.Before(c.due) {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.due, c.timer = due, time.AfterFunc(time.Until(due), c.try)
}

// try writes the copy if it is out of date.
func (c *copier) try() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	stale := c.timer != nil
	c.last, c.timer = time.Now(), nil
	c.mu.Unlock()
	if stale && c.write() != nil {
		c.schedule(copyRetry)
	}
}

// close writes what is due; false when the disk of the copy does not answer in time.
func (c *copier) close(patience time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.try()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != nil {
			c.timer.Stop()
		}
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// buildPragmas open a database that is being built. It counts only when it is whole, so
// that only its end waits for the disk.
const buildPragmas = "_pragma=journal_mode(memory)&_pragma=synchronous(off)&_dqs=0"

// openBuilt opens a database that is being built, with one connection.
func openBuilt(path, options string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, buildPragmas+"&"+options))
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// writeCopy writes the copy and reports how that ended.
func (db *DB) writeCopy() error {
	err := replaceFile(db.cfg.Copy, func(partial string) error {
		if err := createPrivate(partial); err != nil {
			return err
		}
		return extract(context.Background(), db.cfg.Path, partial)
	})
	if err != nil {
		db.log.Warn("the copy of who may open what cannot be written", "path", db.cfg.Copy, "error", err)
	}
	if db.cfg.Copied != nil {
		db.cfg.Copied(err)
	}
	return err
}

// extract fills an empty file with the tables of a database, as they are at one moment.
func extract(ctx context.Context, from, to string) (err error) {
	db, err := openBuilt(to, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := migrate(ctx, db, "", schemas()); err != nil {
		return err
	}
	tables, err := smallTables(ctx, db)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "ATTACH ? AS source", dsn(from, "mode=ro")); err != nil {
		return err
	}
	steps := []string{"BEGIN"}
	for _, table := range tables {
		steps = append(steps, "INSERT OR REPLACE INTO main."+table+" SELECT * FROM source."+table)
	}
	steps = append(steps, `UPDATE main.journal_ends SET (first, anchor, last, hash, bytes) =
		(SELECT last + 1, hash, last, hash, 0 FROM source.journal_ends)`, "COMMIT", "DETACH source")
	for _, step := range steps {
		if _, err := db.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	a, err := accessOf(ctx, db)
	if err == nil {
		_, err = db.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", metaSum, a.digest())
	}
	return err
}

// smallTables lists every table but the journal's, each behind those that it refers to.
func smallTables(ctx context.Context, q queryer) (names []string, err error) {
	for name, err := range each(ctx, q, column[string],
		"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'journal%' AND name NOT LIKE 'sqlite%' ORDER BY rowid") {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// accessCopy is the copy, opened to be read. The zero accessCopy is none: no database has
// its access, because every schema has a number.
type accessCopy struct {
	db     *sql.DB
	access accessState
}

func (c accessCopy) close() {
	if c.db != nil {
		_ = c.db.Close()
	}
}

// readCopy opens the copy at path. An error means that there is none, or that it is not
// as it was written.
func readCopy(ctx context.Context, path string) (c accessCopy, err error) {
	if _, err := os.Stat(path); err != nil {
		return c, err
	}
	if c.db, err = sql.Open("sqlite", dsn(path, lonePragmas)); err != nil {
		return accessCopy{}, err
	}
	if c.access, err = checkCopy(ctx, c.db); err != nil {
		return accessCopy{}, errors.Join(err, c.db.Close())
	}
	return c, nil
}

// checkCopy checks whether a copy is as it was written, and returns who may open what by
// it.
func checkCopy(ctx context.Context, db *sql.DB) (access accessState, err error) {
	if err := quickCheck(ctx, db); err != nil {
		return access, err
	}
	if access, err = accessOf(ctx, db); err != nil {
		return access, err
	}
	foreign, missing, err := foreignObjects(ctx, db)
	if err != nil {
		return access, err
	}
	sum, err := readMeta(ctx, db, metaSum)
	if err == nil && (sum != access.digest() || access.schema > len(schemas()) || len(foreign)+len(missing) > 0) {
		err = fmt.Errorf("%w: its sum or its schema is not that of its content", errDamagedFile)
	}
	return access, err
}

// accessState is who may open what, as the schema, the mark of the last change, and a
// digest.
type accessState struct {
	schema  int
	version string
	sum     [sha256.Size]byte
}

func (a accessState) digest() string { return hex.EncodeToString(a.sum[:]) }

// accessOf reads it. Tables that change without a change of access are left out.
func accessOf(ctx context.Context, q queryer) (a accessState, err error) {
	if a.schema, err = schemaOf(ctx, q); err != nil {
		return a, err
	}
	if a.version, err = readMeta(ctx, q, metaVersion); err != nil {
		return a, err
	}
	h := sha256.New()
	for _, text := range []string{
		"SELECT key, value FROM meta WHERE key IN ('" + metaGateway + "', '" + metaTimeZone + "') ORDER BY key",
		"SELECT * FROM account ORDER BY id", "SELECT * FROM session ORDER BY id",
		"SELECT * FROM station ORDER BY id", "SELECT * FROM access_grant ORDER BY account, station",
	} {
		for row, err := range each(ctx, q, scanAny, text) {
			if err != nil {
				return a, err
			}
			_, _ = fmt.Fprintf(h, "%T %#v\n", row.values, row.values) // a hash takes everything
		}
	}
	h.Sum(a.sum[:0])
	return a, nil
}
