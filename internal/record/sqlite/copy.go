package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
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
	copySoon  = 10 * time.Second // bounds what a client that logs in and out can have written, too
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
	if taken {
		db.revoked.Store(true)
	} else {
		db.changed.Store(true)
	}
}

// keepCopy writes the copy when it is due, until the database is closed; then it writes
// what is left. No caller waits for it.
func (db *DB) keepCopy() {
	defer close(db.copied)
	ticker := time.NewTicker(copySoon)
	defer ticker.Stop()
	var next time.Time // the earliest moment for what can wait
	for open := true; open; {
		soon := db.revoked.Swap(false)
		if soon || !time.Now().Before(next) && db.changed.Load() {
			db.changed.Store(false)
			next = time.Now().Add(copyEvery)
			if db.writeCopy() != nil {
				next = time.Now().Add(copyRetry)
				db.changed.Store(true)
			}
		}
		select {
		case <-ticker.C:
		case <-db.stopped:
			open = false
		}
	}
	if db.revoked.Load() || db.changed.Load() {
		_ = db.writeCopy() // it has logged why
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
		_, err = db.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", metaSum, a.sum)
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

// readCopy opens the copy at path. An error means that there is none, or that it is not
// as it was written; then the access is that of no database.
func readCopy(ctx context.Context, path string) (db *sql.DB, access accessState, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, access, err
	}
	if db, err = sql.Open("sqlite", dsn(path, lonePragmas)); err != nil {
		return nil, access, err
	}
	if access, err = checkCopy(ctx, db); err != nil {
		return nil, accessState{}, errors.Join(err, db.Close())
	}
	return db, access, nil
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
	if err == nil && (sum != access.sum || access.schema > len(schemas()) || len(foreign)+len(missing) > 0) {
		err = fmt.Errorf("%w: its sum or its schema is not that of its content", errDamagedFile)
	}
	return access, err
}

// accessState is who may open what, as the schema, the mark of the last change, and a
// digest in hexadecimal.
type accessState struct {
	schema       int
	version, sum string
}

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
	a.sum = hex.EncodeToString(h.Sum(nil))
	return a, nil
}
