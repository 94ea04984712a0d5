package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// Files works on database files that no gateway has open, for those who back up and
// restore; package backup selects what.
type Files struct {
	Logger *slog.Logger
}

// Inspect checks the pages of a database file and returns what it holds; name is its name
// in messages. The file is not changed. Verify, which takes much longer, checks the
// journal. Errors: NotFound where there is none; Conflict when it is of a newer version;
// Invalid when it is damaged or not a gateway's; Unavailable when it cannot be read.
func (f Files) Inspect(ctx context.Context, path, name string) (site.Inventory, error) {
	return readFile(ctx, path, name, func(db *sql.DB) (site.Inventory, error) { return inspect(ctx, db, name) })
}

// Audit is Inspect and Verify of a file whose schema must be exactly the one that the
// migrations up to its version create. Errors are those of Inspect.
func (f Files) Audit(ctx context.Context, path, name string) (inv site.Inventory, v journal.Verdict, err error) {
	v, err = readFile(ctx, path, name, func(db *sql.DB) (v journal.Verdict, err error) {
		if inv, err = inspect(ctx, db, name); err != nil {
			return v, err
		}
		foreign, missing, err := foreignObjects(ctx, db)
		if err != nil {
			return v, err
		}
		if all := slices.Concat(foreign, missing); len(all) > 0 {
			return v, fault.New(fault.Invalid, fmt.Sprintf("%s was altered: its %s is not as gatehouse makes it; use another backup", name, all[0]))
		}
		return atOnce(ctx, db, verify)
	})
	return inv, v, err
}

func inspect(ctx context.Context, db *sql.DB, name string) (inv site.Inventory, err error) {
	schema, err := schemaOf(ctx, db)
	switch known := len(schemas()); {
	case err != nil:
		return inv, err
	case schema > known:
		return inv, fault.New(fault.Conflict, fmt.Sprintf(
			"%s is of a newer version of gatehouse (schema %d, this one knows %d): install that version first", name, schema, known))
	case schema < 1:
		return inv, errors.New("the database is empty")
	}
	if err := quickCheck(ctx, db); err != nil {
		return inv, err
	}
	inv.Schema = schema
	e, err := readEnds(ctx, db)
	if err != nil {
		return inv, err
	}
	inv.First, inv.Last, inv.Records = e.anchor.seq+1, e.last.seq, int(e.last.seq-e.anchor.seq) //nolint:gosec // fits for ever
	inv.Head = headOf(e.last).Hash
	var newest int64
	err = db.QueryRowContext(ctx, `SELECT (SELECT coalesce(max(value), '') FROM meta WHERE key = ?),
		(SELECT count(*) FROM account), (SELECT count(*) FROM station), (SELECT count(*) FROM session),
		coalesce((SELECT time FROM journal ORDER BY seq DESC LIMIT 1), 0)`, metaGateway).
		Scan(&inv.Gateway, &inv.Accounts, &inv.Stations, &inv.Sessions, &newest)
	inv.Newest = site.At(fromMillis(newest))
	if err != nil {
		return inv, fmt.Errorf("counting: %w", err)
	}
	return inv, nil
}

// Renew makes a database file ready to be served in the place of another: it brings
// it to this version's schema, stores those revocations that it does not have yet, ends its
// sessions unless keepSessions, and appends r, with the number of sessions that ended as its
// count. revocations are in the order of their numbers.
func (f Files) Renew(ctx context.Context, path string, revocations []site.Amendment, keepSessions bool, r site.Record) (revoked, ended int, err error) {
	err = f.write(ctx, path, func(db *DB) (err error) {
		if revoked, err = db.revoke(ctx, revocations); err != nil {
			return err
		}
		if !keepSessions {
			if err := db.reader().QueryRowContext(ctx, "SELECT count(*) FROM session").Scan(&ended); err != nil {
				return storageError(err)
			}
		}
		r.Count = ended
		return db.change(ctx, true, func(t *transaction) (err error) { // no copy of before agrees
			if !keepSessions {
				_, err = t.exec("DELETE FROM session")
			}
			return errors.Join(err, t.setMeta(metaRestore, uuid.NewString())) // it may be older than the copy
		}, r)
	})
	return revoked, ended, err
}

// revoke stores those revocations that the database does not have yet, and returns how many. It
// passes over those of what is not there: one that replaces a grant would add it.
func (db *DB) revoke(ctx context.Context, left []site.Amendment) (revoked int, err error) {
	stored, err := db.Revoked(ctx)
	if err != nil {
		return 0, err
	}
	left = slices.DeleteFunc(left, func(a site.Amendment) bool {
		return a.Revocation <= stored || a.PutGrant != nil && !db.hasGrant(ctx, a.PutGrant.Key())
	})
	for n := len(left); len(left) > 0; left, n = left[n:], len(left)-n {
		err := db.Amend(ctx, nil, left[:n])
		if fault.Is(err, fault.NotFound) && n > 1 { // then each by itself
			n = 1
			err = db.Amend(ctx, nil, left[:n])
		}
		switch {
		case err == nil:
			revoked += n
		case !fault.Is(err, fault.NotFound):
			return revoked, err
		}
	}
	return revoked, nil
}

func (db *DB) hasGrant(ctx context.Context, key site.GrantKey) (has bool) {
	err := db.reader().QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM access_grant WHERE "+grantKey("")+" = (?, ?, ?, ?))", keyOf(key)...).Scan(&has)
	return err == nil && has
}

// write migrates a file without copying it first, because the caller has another copy, and
// opens it as the gateway does, which serves as a test of it too.
func (f Files) write(ctx context.Context, path string, use func(*DB) error) error {
	former := connect(dsn(path, writerPragmas), 1)
	if err := errors.Join(migrate(ctx, former, "", schemas()), former.Close()); err != nil {
		return err
	}
	db, err := Open(ctx, Config{Path: path, Boot: site.BootID(uuid.NewString()), Logger: f.Logger})
	if err != nil {
		return err
	}
	db.UseClock(floorClock(db.Floor()))
	return errors.Join(use(db), db.Close())
}

// floorClock is the clock of a process that does not wait to see whether the system's
// is right: never below the time floor, and never trusted.
type floorClock time.Time

func (c floorClock) Now() time.Time {
	if now := time.Now(); now.After(time.Time(c)) {
		return now
	}
	return time.Time(c)
}

func (c floorClock) Trusted() bool { return false }
