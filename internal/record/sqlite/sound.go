package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// openSound opens a usable database: a damaged one is set aside and replaced first.
func openSound(ctx context.Context, cfg Config) (*DB, error) {
	if err := completeRescue(cfg.Path); err != nil {
		return nil, fmt.Errorf("putting the database in place: %w", err)
	}
	copied, unread := readCopy(ctx, cfg.Copy)
	if copied != nil {
		defer func() { _ = copied.Close() }()
	}
	db, err := tryOpen(ctx, cfg, copied)
	story := ""
	if isDamage(err) {
		if story, err = rescue(ctx, cfg, err); err != nil {
			return nil, err
		}
		db, err = open(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	db.rescued = story
	db.keepCopy(ctx, cfg.Copy, copied, unread)
	return db, nil
}

// tryOpen opens the database and checks whether it can be used. An error for which
// isDamage holds means that it is damaged.
func tryOpen(ctx context.Context, cfg Config, copied *sql.DB) (*DB, error) {
	if _, err := os.Stat(cfg.Path + unsoundMark); err == nil {
		return nil, fmt.Errorf("%w: a page could not be read in the last run", errDamagedFile)
	}
	if info, err := os.Stat(cfg.Path); err == nil && info.Size() == 0 && copied != nil {
		return nil, fmt.Errorf("%w: it is empty", errDamagedFile)
	}
	db, err := open(ctx, cfg)
	if fault.Is(err, fault.Conflict) && sameSchema(ctx, cfg.Path) {
		return nil, fmt.Errorf("%w: its version is not what it was", errDamagedFile)
	}
	if err != nil {
		return nil, err
	}
	if problem := db.examine(ctx, copied); isDamage(problem) {
		return nil, errors.Join(problem, db.Close())
	}
	return db, nil
}

// sameSchema reports whether a file that claims a newer version has exactly the schema
// of this one.
func sameSchema(ctx context.Context, path string) bool {
	db, err := sql.Open("sqlite", dsn(path, "mode=ro&_busy_timeout=2000&_dqs=0"))
	if err != nil {
		return false
	}
	defer func() { _ = db.Close() }()
	texts, err := schemas()
	if err != nil {
		return false
	}
	wanted, err := objectsOf(ctx, texts)
	if err != nil {
		return false
	}
	present, err := objectsIn(ctx, db)
	return err == nil && len(without(present, wanted)) == 0 && len(without(wanted, present)) == 0
}

// keepCopy starts keeping the copy up to date.
func (db *DB) keepCopy(ctx context.Context, path string, copied *sql.DB, unread error) {
	db.copier = newCopier(
		func() error { return writeCopy(context.Background(), db.path, path) },
		func(err error) {
			if heard := db.copying.Load(); heard != nil {
				(*heard)(err)
			} else if err != nil {
				db.log.Warn("the copy of who may open what cannot be written", "error", err)
			}
		})
	go db.copier.run()
	if unread != nil && !errors.Is(unread, os.ErrNotExist) {
		db.log.Warn("the copy of the database cannot be read and is written again", "error", unread)
	}
	if copied == nil || !sameAccess(ctx, db.reading, copied) {
		db.copier.changed(true)
	}
}

// sameAccess reports whether two databases agree on who may open what.
func sameAccess(ctx context.Context, a, b queryer) bool {
	mine, err := accessOf(ctx, a)
	if err != nil {
		return false
	}
	theirs, err := accessOf(ctx, b)
	return err == nil && mine == theirs
}

// CarryOver records in the journal what was done with a damaged database, and fetches
// its records: the newest before it returns, the rest while the gateway works. It waits
// for 4 s at most; what fails is logged and tried again at the next start. It is called
// once, after [DB.UseClock].
func (db *DB) CarryOver(ctx context.Context) {
	if db.rescued != "" {
		db.AppendLater(site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{Detail: db.rescued}})
	}
	db.carryOver(ctx)
}

// noteDamage notes a page that cannot be read, so that the next start sets the database
// aside and carries over what can be read.
func (db *DB) noteDamage(err error) {
	db.unsound.Do(func() {
		db.log.Error("a page of the database is damaged; the next start sets it aside", "error", err)
		if db.copier != nil {
			if err := durable.Write(db.path+unsoundMark, nil, 0o600); err != nil {
				db.log.Error("the damage cannot be noted for the next start", "error", err)
			}
		}
		if heard := db.damaged.Load(); heard != nil {
			(*heard)(err)
		}
	})
}

// readableAfter returns the first readable record after a seq and after any unreadable
// records that follow it.
func (db *DB) readableAfter(ctx context.Context, after uint64) (uint64, error) {
	at := func(from uint64) (seq uint64, err error) {
		err = db.reading.QueryRowContext(ctx, "SELECT seq FROM journal WHERE seq >= ? AND length(body) > 0 ORDER BY seq LIMIT 1", int64(from)).Scan(&seq) //nolint:gosec // seq fits
		return seq, err
	}
	low, high, found := after, db.Latest()+1, uint64(0) // nothing is readable from low on; found is, from high on
	for distance := uint64(1); found == 0; distance *= 2 {
		from := min(after+1+distance, db.Latest())
		seq, err := at(from)
		switch {
		case err == nil:
			found, high = seq, from
		case !isDamage(err) || from == db.Latest():
			return 0, err
		default:
			low = from
		}
	}
	for low+1 < high {
		middle := low + (high-low)/2
		seq, err := at(middle)
		switch {
		case err == nil:
			found, high = seq, middle
		case isDamage(err):
			low = middle
		default:
			return 0, err
		}
	}
	return found, nil
}
