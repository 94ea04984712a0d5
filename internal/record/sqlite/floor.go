package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gatehouse/internal/site"
)

// floor is the time floor (contract, section 4): the latest time that was sure, by
// [DB.SaveFloor] or a record that a trusted clock stamped. After every transaction the
// disk holds it: the newest record does, so that an unlock writes nothing more for it;
// where that is untrusted, or earlier, or removed, table meta does, by the same
// transaction. So it never goes back but by [DB.ResetFloor]. Milliseconds since 1970 UTC; 0 is none.
type floor struct {
	sure   int64 // the floor
	saved  int64 // what table meta holds
	newest int64 // what the newest record holds
}

// Floor returns the time floor as it is on the disk; zero before the first. It
// never returns less than it did, also after a power cut, [DB.ResetFloor] apart. It
// reads no disk.
func (db *DB) Floor() time.Time { return fromMillis(db.durable.Load().floor.sure) }

// SaveFloor raises the time floor to t. A floor that is higher stays.
func (db *DB) SaveFloor(ctx context.Context, t time.Time) error {
	return db.do(ctx, func(tx *transaction) error {
		db.floor.sure = max(db.floor.sure, t.UnixMilli())
		return db.floor.save(tx)
	})
}

// ResetFloor lowers the time floor to t. The record, which is not later than t, is then
// the newest, so that earlier ones do not count. allowed is called as that of [DB.Amend].
func (db *DB) ResetFloor(ctx context.Context, allowed func() error, t time.Time, r site.Record) error {
	if err := db.awaitDisk(ctx); err != nil {
		return err
	}
	return db.do(ctx, func(tx *transaction) error {
		if err := allowed(); err != nil {
			return err
		}
		db.floor = floor{sure: t.UnixMilli()}
		return db.floor.save(tx)
	}, r)
}

// follow takes note of a record that is the newest now.
func (f *floor) follow(r *site.Record) {
	f.newest = 0
	if r.ClockTrusted {
		f.newest = r.Time.UnixMilli()
		f.sure = max(f.sure, f.newest)
	}
}

// hold ensures, at the end of a transaction, that the disk holds the floor.
func (f *floor) hold(t *transaction) error {
	if f.newest >= f.sure {
		return nil
	}
	return f.save(t)
}

// save writes the floor to table meta.
func (f *floor) save(t *transaction) error {
	if f.saved >= f.sure {
		return nil
	}
	f.saved = f.sure
	return t.setMeta(metaFloor, strconv.FormatInt(f.sure, 10))
}

// readFloor returns the floor of a file that is being opened. What is damaged is
// skipped: it must not keep every door shut.
func (db *DB) readFloor(ctx context.Context, q queryer) (f floor, err error) {
	newest, err := newestRecord(ctx, q)
	if err != nil {
		db.log.Error("the newest record cannot be read", "error", err)
	}
	f.saved, err = savedFloor(ctx, q)
	if errors.Is(err, errDamaged) {
		db.log.Error("the saved time floor is damaged", "error", err)
		err = nil
	}
	f.sure = f.saved
	f.follow(&newest)
	db.lastRun = newest.Boot
	return f, err
}

// LastRun returns which run of the gateway wrote the newest record that was there when the
// database was opened; "" where there was none.
func (db *DB) LastRun() site.BootID { return db.lastRun }

// newestRecord returns the newest record; a zero one where there is none.
func newestRecord(ctx context.Context, q queryer) (newest site.Record, err error) {
	for r, err := range each(ctx, q, scanRecord, "SELECT body FROM journal ORDER BY seq DESC LIMIT 1") {
		if err != nil {
			return site.Record{}, err
		}
		newest = r
	}
	return newest, nil
}

// savedFloor returns the floor in table meta; errDamaged when that is no number.
func savedFloor(ctx context.Context, q queryer) (int64, error) {
	text, err := readMeta(ctx, q, metaFloor)
	if err != nil {
		return 0, fmt.Errorf("reading the time floor: %w", err)
	}
	if text == "" {
		return 0, nil
	}
	saved, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the time floor: %w: %w", errDamaged, err)
	}
	return saved, nil
}
