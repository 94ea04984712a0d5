package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"strconv"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// CloudCursor returns the last seq that the cloud has acknowledged, 0 before the first. It is
// never beyond the newest record: a cursor that is damaged holds no record back.
func (db *DB) CloudCursor(ctx context.Context) (uint64, error) {
	text, err := db.meta(ctx, metaCursor)
	if err != nil || text == "" {
		return 0, err
	}
	seq, damaged := strconv.ParseUint(text, 10, 63)
	if damaged != nil {
		db.log.Error("the saved place in the journal is damaged; the cloud gets every record again", "error", damaged)
		seq = 0
	}
	return min(seq, db.Latest()), nil
}

// SaveCloudCursor keeps the last seq that the cloud has acknowledged.
func (db *DB) SaveCloudCursor(ctx context.Context, seq uint64) error {
	return db.setMeta(ctx, metaCursor, strconv.FormatUint(seq, 10))
}

// CloudStations returns the stations whose state the cloud has.
func (db *DB) CloudStations(ctx context.Context) ([]site.StationID, error) {
	text, err := db.meta(ctx, metaStations)
	if err != nil || text == "" {
		return nil, err
	}
	var ids []site.StationID
	if damaged := json.Unmarshal([]byte(text), &ids); damaged != nil {
		db.log.Error("the saved list of stations at the cloud is damaged; removed stations may remain there", "error", damaged)
	}
	return ids, nil
}

// SaveCloudStations saves the stations whose state the cloud has.
func (db *DB) SaveCloudStations(ctx context.Context, ids []site.StationID) error {
	text, _ := json.Marshal(ids) // numbers can be written
	return db.setMeta(ctx, metaStations, string(text))
}

// outboxBytes bounds the result of one call of Outbox, in bytes.
const outboxBytes = 256 << 10

// Outbox returns the stored records that follow a seq, in order: at most limit of them and
// at most 256 KiB, but at least one where there is one. A damaged record is returned as
// it is; those on a page that cannot be read are skipped, so that the caller sees a gap.
// Records that are not in a mirror are Unavailable.
func (db *DB) Outbox(ctx context.Context, after uint64, limit int) ([]journal.Entry, error) {
	if now := db.durable.Load(); now.part && after+1 < now.first {
		return nil, fault.New(fault.Unavailable, "The records are not in memory, and the storage takes no writes")
	}
	for from := after + 1; ; from++ {
		all, err := db.entries(ctx, from, limit)
		if len(all) > 0 {
			return all, nil
		}
		if !isDamage(err) || from > db.Latest() {
			return nil, storageError(err)
		}
		db.noteDamage(err)
	}
}

// entries is Outbox from a seq on, up to the first page that cannot be read; then what
// was read comes with the error. (By ">" SQLite would look for the record before on its
// page, which may be the damaged one.)
func (db *DB) entries(ctx context.Context, from uint64, limit int) (all []journal.Entry, err error) {
	scan := func(rows *sql.Rows) (e journal.Entry, err error) {
		err = rows.Scan(&e.Seq, &e.Body)
		return e, err
	}
	size := 0
	for e, err := range each(ctx, db.reader(), scan, "SELECT seq, body FROM journal WHERE seq >= ? ORDER BY seq LIMIT ?", int64(from), limit) { //nolint:gosec // seq fits
		if size += len(e.Body); err != nil || size > outboxBytes && len(all) > 0 {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}
