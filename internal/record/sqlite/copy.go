package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	sqlite3 "modernc.org/sqlite/lib"

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

// change is do for a change of accounts, sessions, stations, grants, groups or holidays; revokes means that
// it may revoke access. The copy follows.
func (db *DB) change(ctx context.Context, revokes bool, change func(*transaction) error, records ...site.Record) error {
	err := db.do(ctx, func(t *transaction) error {
		if err := change(t); err != nil {
			return err
		}
		return t.renewVersion()
	}, records...)
	if err == nil {
		db.copyAgain(revokes)
	}
	return err
}

// renewVersion makes every existing copy out of date.
func (t *transaction) renewVersion() error { return t.setMeta(metaVersion, uuid.NewString()) }

// copyAgain schedules a new copy: soon if access was revoked.
func (db *DB) copyAgain(revokes bool) {
	if revokes {
		db.revoked.Store(true)
	} else {
		db.changed.Store(true)
	}
}

// keepCopy writes the copy when it is due, until the database is closed; then it writes
// what is left. No caller waits for it.
func (db *DB) keepCopy() {
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
			db.watchFiles()
		case <-db.hurry:
		case <-db.stopped:
			open = false
		}
	}
	if db.revoked.Load() || db.changed.Load() {
		_ = db.writeCopy() // it has logged why
	}
}

// buildPragmas open a database that is being built. It counts only when it is whole, so
// that only its end waits for the disk. With a writable schema SQLite attaches damaged
// databases, see [salvage].
const buildPragmas = "_pragma=journal_mode(memory)&_pragma=synchronous(off)&_pragma=foreign_keys(on)&_dqs=0" +
	"&_pragma=writable_schema(1)&_pragma=cell_size_check(1)"

// openBuilt opens a database that is being built, with one connection.
func openBuilt(path string) (*sql.DB, error) {
	return connect(dsn(path, buildPragmas), 1), createPrivate(path)
}

// Copied returns the number of the last revocation that the copy is known to have, 0 where
// there is none.
func (db *DB) Copied() uint64 { return db.copyHas.Load() }

// CopyNow has the copy written at once. It does not wait for that.
func (db *DB) CopyNow() {
	db.revoked.Store(true)
	select {
	case db.hurry <- struct{}{}:
	default: // it is about to be written, or there is none
	}
}

// OnCopied sets the function that is called after the copy was written, or with the error after it could not be, by
// the goroutine that writes it.
func (db *DB) OnCopied(do func(error)) { db.onCopied.Store(&do) }

// writeCopy writes the copy and reports how that ended.
func (db *DB) writeCopy() error {
	var has uint64
	err := replaceFile(db.cfg.Copy, func(partial string) (err error) {
		has, err = atOnce(context.Background(), db.reader(), func(ctx context.Context, q queryer, e ends) (uint64, error) {
			if err := keepNewer(ctx, q, db.cfg.Copy); err != nil {
				return 0, err
			}
			has, err := revoked(ctx, q)
			return has, errors.Join(err, extract(ctx, q, e, partial))
		})
		return err
	})
	if err == nil {
		db.copyHas.Store(has)
	}
	if do := db.onCopied.Load(); do != nil {
		(*do)(err)
	}
	db.syncHead()
	if err != nil {
		db.log.Warn("the copy of who may open what cannot be written", "path", db.cfg.Copy, "error", err)
	}
	if db.cfg.Copied != nil {
		db.cfg.Copied(err)
	}
	return err
}

// keepNewer returns an error if a database is behind its copy: the next start needs that.
func keepNewer(ctx context.Context, q queryer, path string) error {
	copied, _, err := readCopy(ctx, path)
	if err != nil {
		return nil // it is of no use
	}
	defer func() { _ = copied.Close() }()
	now, err := progressOf(ctx, q)
	if has := readProof(ctx, path, copied).copied; err == nil && now.behind(has) {
		err = fmt.Errorf("the copy has record %d, and the database ends with %d", has.last, now.last)
	}
	return err
}

// extract writes everything but the journal, of which e are the ends, to a new database.
func extract(ctx context.Context, q queryer, e ends, path string) (err error) {
	copied, err := openBuilt(path)
	defer func() { err = errors.Join(err, copied.Close()) }()
	if err != nil {
		return err
	}
	unsound, err := fill(ctx, q, copied, schemas(), tableBattery)
	if err != nil {
		return err
	}
	if len(unsound) > 0 {
		return fmt.Errorf("%w: table %s", errDamagedFile, unsound[0])
	}
	a, err := accessOf(ctx, copied)
	if err != nil {
		return err
	}
	_, err = copied.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", metaSum, a.sum)
	if err == nil {
		_, err = copied.ExecContext(ctx, "UPDATE journal_ends SET first = ?1 + 1, anchor = ?2, last = ?1, hash = ?2", int64(e.last.seq), e.last.hash[:]) //nolint:gosec // seq fits
	}
	return err
}

// fill brings an empty database to a schema and copies what can be read of the small
// tables of another, without those that are named. unsound are the names of those that may not be whole.
func fill(ctx context.Context, from queryer, to *sql.DB, migrations []string, without ...string) (unsound []string, err error) {
	if err := migrate(ctx, to, "", migrations); err != nil {
		return nil, err
	}
	tables, err := smallTables(ctx, to)
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		if slices.Contains(without, table) {
			continue
		}
		if _, err := to.ExecContext(ctx, "DELETE FROM "+table); err != nil { //nolint:gosec // a name of our own schema; a migration creates rows
			return nil, err
		}
		whole, err := copyRows(ctx, from, to, table, "")
		if err == nil && (!whole || checkPages(ctx, from, table) != nil) {
			unsound = append(unsound, table)
			_, err = copyRows(ctx, from, to, table, " ORDER BY 1 DESC") // up to the damage from the other end
		}
		if err != nil {
			return nil, err
		}
	}
	return unsound, nil
}

// copyRows copies the rows of a table in an order, up to the first that cannot be read,
// and reports whether these were all. Rows that refer to what is not there are left out.
func copyRows(ctx context.Context, from queryer, to *sql.DB, table, order string) (whole bool, err error) {
	tx, err := to.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	whole = true
	for row, unread := range each(ctx, from, scanAny, "SELECT * FROM "+table+order) {
		if unread != nil {
			whole = false
			break
		}
		_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO "+table+" VALUES (?"+strings.Repeat(", ?", len(row)-1)+")", row...) //nolint:gosec // a name of our own schema
		if err != nil && codeOf(err) != sqlite3.SQLITE_CONSTRAINT {
			return false, errors.Join(err, tx.Rollback())
		}
		whole = whole && err == nil
	}
	return whole, tx.Commit()
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
	db = connect(dsn(path, lonePragmas), 1)
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

// contradicts reports whether a database and its copy are equally new and not the same.
func (a accessState) contradicts(copied accessState) bool {
	return a.schema == copied.schema && a.version == copied.version && a.sum != copied.sum
}

// schemaGroups is the first version of the schema that has groups and holidays.
const schemaGroups = 7

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
		"SELECT * FROM account ORDER BY id", "SELECT id, account, refresh, created, expires, clock_trusted, remote FROM session ORDER BY id",
		"SELECT * FROM station ORDER BY id", "SELECT * FROM access_grant ORDER BY account, station",
		"SELECT id, name, sum, reads, unlocks_all, created, until_time FROM token ORDER BY id", "SELECT * FROM token_station ORDER BY token, station",
		"SELECT account_group, station_group FROM access_grant ORDER BY 1, 2", "SELECT * FROM site_group ORDER BY name",
		"SELECT * FROM group_account ORDER BY name, account", "SELECT * FROM group_station ORDER BY name, station", "SELECT * FROM holiday ORDER BY name",
	} {
		if a.schema < schemaTokens && strings.Contains(text, "FROM token") ||
			a.schema < schemaGroups && (strings.Contains(text, "group") || strings.Contains(text, "FROM holiday")) {
			continue
		}
		for row, err := range each(ctx, q, scanAny, text) {
			if err != nil {
				return a, err
			}
			_, _ = fmt.Fprintf(h, "%T %#v\n", row, row) // a hash takes everything
		}
	}
	a.sum = hex.EncodeToString(h.Sum(nil))
	return a, nil
}
