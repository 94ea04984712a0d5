package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// defaultLimit is how many records a query without a limit returns.
const defaultLimit = 1000

// AppendRecord makes one record durable before it returns nil.
func (db *DB) AppendRecord(ctx context.Context, r site.Record) error { return db.do(ctx, nil, r) }

// Flush implements [journal.Store]: each empty use case writes the queued records too, as
// many as one transaction may hold.
func (db *DB) Flush(ctx context.Context) error {
	for waiting := db.Kept(); ; waiting -= maxBatch {
		if err := db.do(ctx, nil); err != nil || waiting <= maxBatch {
			return err
		}
	}
}

// Kept implements [journal.Store].
func (db *DB) Kept() int { return db.queue.inMemory() }

// Bytes implements [journal.Store].
func (db *DB) Bytes() int64 { return db.durable.Load().bytes }

// Latest implements [journal.Store].
func (db *DB) Latest() uint64 { return db.durable.Load().tail.seq }

// Size implements [journal.Store].
func (db *DB) Size() journal.Size {
	now := db.durable.Load()
	size := journal.Size{Bytes: now.bytes, Last: now.tail.seq}
	if now.first <= size.Last {
		size.First, size.Records = now.first, int64(size.Last-now.first+1) //nolint:gosec // fits
	}
	return size
}

// Read implements [journal.Store].
func (db *DB) Read(ctx context.Context, q journal.Query) ([]site.Record, error) {
	limit := cmp.Or(q.Limit, defaultLimit)
	text := `SELECT body FROM journal WHERE seq > ?1 AND seq < ifnull(nullif(?2, 0), 1 << 62)
		AND ` + notRemoved + ` AND (?3 = 0 OR time >= ?3) AND (?4 = 0 OR time < ?4) AND (?5 = 0 OR station = ?5) ORDER BY seq`
	if q.Newest {
		text += " DESC"
	}
	var records []site.Record
	for r, err := range each(ctx, db.reader(), scanRecord, text,
		int64(q.AfterSeq), int64(q.BeforeSeq), toMillis(q.Since), toMillis(q.Until), int64(q.Station)) { //nolint:gosec // seq fits
		if err != nil {
			return records, storageError(err)
		}
		if q.Selects(&r) {
			records = append(records, r)
		}
		if len(records) == limit {
			break
		}
	}
	if q.Newest {
		slices.Reverse(records)
	}
	return records, nil
}

// once returns the texts that mark records which a start needs: keys and ids of
// commands that are carried out once, and the kinds of records that show where such are
// missing.
func once() [][]byte {
	return [][]byte{
		[]byte(`"idempotencyKey":`), []byte(`"jti":`),
		[]byte(`"kind":"` + string(site.KindRestored) + `"`), []byte(`"kind":"` + string(site.KindRecordsLost) + `"`), []byte(`"kind":"` + string(site.KindUpdate) + `"`),
	}
}

// Recent implements [journal.Store].
func (db *DB) Recent(ctx context.Context, most, within int, span time.Duration) ([]site.Record, error) {
	var records []site.Record
	var last site.Record // of its run
	needles := once()
	for body, err := range each(ctx, db.reader(), column[sql.RawBytes], "SELECT body FROM journal ORDER BY seq DESC LIMIT ?", within) {
		if err != nil {
			return nil, storageError(err)
		}
		needed := func(needle []byte) bool { return bytes.Contains(body, needle) }
		if len(records) >= most && !slices.ContainsFunc(needles, needed) { // decoding is what takes time
			continue
		}
		r, damaged := decode(body)
		if damaged != nil || r.Kind != site.KindUnlock && r.Kind != site.KindRestored && r.Kind != site.KindRecordsLost && r.Kind != site.KindUpdate {
			continue
		}
		if r.Kind == site.KindUnlock && r.Boot != last.Boot {
			last = r
		}
		if r.Kind == site.KindUnlock && len(records) >= most && last.Time.Sub(r.Time.Time) >= span {
			break
		}
		records = append(records, r)
	}
	slices.Reverse(records)
	return records, nil
}

// scanRecord reads a record from its body; errDamaged when that is no record.
func scanRecord(rows *sql.Rows) (r site.Record, err error) {
	body, err := column[sql.RawBytes](rows)
	if err != nil {
		return r, err
	}
	return decode(body)
}

func decode(body []byte) (r site.Record, err error) {
	if err = json.Unmarshal(body, &r); err != nil {
		err = fmt.Errorf("reading a record (run gatehouse journal verify): %w: %w", errDamaged, err)
	}
	return r, err
}

// storageError returns an error of reading with the kind Unavailable; nil stays nil.
func storageError(err error) error {
	return fault.Wrap(fault.Unavailable, "The gateway cannot read its storage right now", err)
}
