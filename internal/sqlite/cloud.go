package sqlite

import (
	"context"
	"encoding/json"
	"strconv"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
)

// CloudCursor gives the last seq that the cloud has taken, 0 before the first. It is
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

// SaveCloudCursor keeps the last seq that the cloud has taken.
func (db *DB) SaveCloudCursor(ctx context.Context, seq uint64) error {
	return db.setMeta(ctx, metaCursor, strconv.FormatUint(seq, 10))
}

// CloudStations gives the stations whose state stands at the cloud.
func (db *DB) CloudStations(ctx context.Context) ([]site.StationID, error) {
	text, err := db.meta(ctx, metaStations)
	if err != nil || text == "" {
		return nil, err
	}
	var ids []site.StationID
	if damaged := json.Unmarshal([]byte(text), &ids); damaged != nil {
		db.log.Error("the saved list of stations at the cloud is damaged; what was removed may still stand there", "error", damaged)
	}
	return ids, nil
}

// SaveCloudStations keeps them.
func (db *DB) SaveCloudStations(ctx context.Context, ids []site.StationID) error {
	text, err := json.Marshal(ids)
	if err != nil {
		return fault.Wrap(fault.Internal, "The list of stations cannot be written", err)
	}
	return db.setMeta(ctx, metaStations, string(text))
}

// outboxBytes bounds what one call of Outbox gives.
const outboxBytes = 256 << 10

// Outbox gives the records that follow a seq as they stand, in order: at most so many,
// and no more than make 256 KiB, but one at least where there is one. A damaged one is
// given as it is.
func (db *DB) Outbox(ctx context.Context, after uint64, limit int) ([]journal.Entry, error) {
	rows, err := db.reading.QueryContext(ctx, "SELECT seq, body FROM journal WHERE seq > ? ORDER BY seq LIMIT ?", int64(after), limit) //nolint:gosec // seq fits
	if err != nil {
		return nil, storageError(err)
	}
	defer func() { _ = rows.Close() }()
	var all []journal.Entry
	for size := 0; size < outboxBytes && rows.Next(); {
		var e journal.Entry
		if err := rows.Scan(&e.Seq, &e.Body); err != nil {
			return nil, storageError(err)
		}
		if size += len(e.Body); size > outboxBytes && len(all) > 0 {
			break
		}
		all = append(all, e)
	}
	return all, storageError(rows.Err())
}
