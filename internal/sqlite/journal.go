package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
)

const (
	// defaultLimit is how many records a query without a limit gives.
	defaultLimit = 1000
	// pruneStep is how many records one transaction removes, so that an unlock never
	// waits long behind retention.
	pruneStep = 500
	// disorder is how much older than its predecessor a record may be: it may have
	// waited in memory while the disk failed.
	disorder = time.Hour
)

// Append implements [journal.Store].
func (db *DB) Append(ctx context.Context, records ...site.Record) error {
	return db.do(ctx, nil, records...)
}

// AppendRecord makes one record durable before it returns nil.
func (db *DB) AppendRecord(ctx context.Context, r site.Record) error { return db.do(ctx, nil, r) }

// AppendLater implements [journal.Store].
func (db *DB) AppendLater(r site.Record) {
	db.stamp(&r)
	db.queue.addLater(r)
}

// Kept implements [journal.Store].
func (db *DB) Kept() int { return db.queue.kept() }

// Latest implements [journal.Store].
func (db *DB) Latest() uint64 { return db.latest.Load() }

// Size implements [journal.Store].
func (db *DB) Size(ctx context.Context) (journal.Size, error) {
	e, err := readEnds(ctx, db.reading)
	if err != nil {
		return journal.Size{}, storageError(err)
	}
	size := journal.Size{Records: int64(e.last.seq - e.anchor.seq), Bytes: e.bytes, Last: e.last.seq} //nolint:gosec // fits
	if size.Records > 0 {
		size.First = e.anchor.seq + 1
	}
	return size, nil
}

// Read implements [journal.Store].
func (db *DB) Read(ctx context.Context, q journal.Query) ([]site.Record, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	after := q.AfterSeq
	if !q.Since.IsZero() {
		first, err := db.firstSince(ctx, q.Since.Add(-disorder))
		if err != nil {
			return nil, storageError(err)
		}
		after = max(after, first-1)
	}
	until := int64(math.MaxInt64)
	if !q.Until.IsZero() {
		until = q.Until.UnixMilli()
	}
	rows, err := db.reading.QueryContext(ctx,
		"SELECT body FROM journal WHERE seq > ? AND time < ? AND (? = 0 OR station = ?) ORDER BY seq",
		int64(after), until, int64(q.Station), int64(q.Station)) //nolint:gosec // seq fits
	if err != nil {
		return nil, storageError(err)
	}
	records, err := scanRecords(rows, q, limit)
	return records, storageError(err)
}

func scanRecords(rows *sql.Rows, q journal.Query, limit int) (records []site.Record, err error) {
	defer func() { _ = rows.Close() }()
	for len(records) < limit && rows.Next() {
		var body sql.RawBytes
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		var r site.Record
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, fmt.Errorf("a record is damaged (run gatehouse journal verify): %w", err)
		}
		if q.Matches(r) {
			records = append(records, r)
		}
	}
	return records, rows.Err()
}

// firstSince finds the first record at or after t by halving: the gateway's clock
// never goes back, so seq and time rise together, but for a bounded disorder.
func (db *DB) firstSince(ctx context.Context, t time.Time) (uint64, error) {
	e, err := readEnds(ctx, db.reading)
	if err != nil {
		return 0, err
	}
	low, high := e.anchor.seq+1, e.last.seq+1
	for low < high {
		middle := low + (high-low)/2
		var at int64
		err := db.reading.QueryRowContext(ctx, "SELECT time FROM journal WHERE seq = ?", int64(middle)).Scan(&at) //nolint:gosec // seq fits
		if err != nil {
			return 0, fmt.Errorf("finding the first record since %s: %w", site.At(t), err)
		}
		if at < t.UnixMilli() {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// Prune implements [journal.Store].
func (db *DB) Prune(ctx context.Context, before time.Time, maxBytes int64, keepAfter uint64) (removed int, err error) {
	for {
		var step int
		err := db.do(ctx, func(t *transaction) (err error) {
			step, err = db.pruneStep(t, before, maxBytes, keepAfter)
			return err
		})
		removed += step
		if err != nil || step < pruneStep {
			return removed, err
		}
		if ctx.Err() != nil {
			return removed, ctx.Err()
		}
	}
}

// pruneStep removes up to pruneStep records from the front and moves the anchor.
func (db *DB) pruneStep(t *transaction, before time.Time, maxBytes int64, keepAfter uint64) (int, error) {
	e, err := readEnds(context.Background(), t.conn)
	if err != nil {
		return 0, err
	}
	anchor, bytes, err := t.cut(before, db.bytes, maxBytes, keepAfter)
	if err != nil || anchor.seq == 0 {
		return 0, err
	}
	if _, err := t.exec("DELETE FROM journal WHERE seq <= ?", int64(anchor.seq)); err != nil { //nolint:gosec // seq fits
		return 0, err
	}
	_, err = t.exec("UPDATE journal_ends SET first = ?, anchor = ?, bytes = ?", int64(anchor.seq+1), anchor.hash[:], bytes) //nolint:gosec // seq fits
	if err == nil {
		db.bytes = bytes
	}
	return int(anchor.seq - e.anchor.seq), err //nolint:gosec // at most pruneStep
}

// cut finds the last record that has to go, at most pruneStep from the front, and
// what bytes are left after it; the zero chain when none has to.
func (t *transaction) cut(before time.Time, bytes, maxBytes int64, keepAfter uint64) (last chain, left int64, err error) {
	oldest := int64(math.MinInt64)
	if !before.IsZero() {
		oldest = before.UnixMilli()
	}
	rows, err := t.conn.QueryContext(context.Background(),
		"SELECT seq, time, length(CAST(body AS BLOB)), hash FROM journal ORDER BY seq LIMIT ?", pruneStep)
	if err != nil {
		return chain{}, 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var seq, at, size int64
		var hash sql.RawBytes
		if err := rows.Scan(&seq, &at, &size, &hash); err != nil {
			return chain{}, 0, err
		}
		if uint64(seq) > keepAfter || (at >= oldest && bytes <= maxBytes) { //nolint:gosec // seq is positive
			break
		}
		last.seq = uint64(seq) //nolint:gosec // seq is positive
		copy(last.hash[:], hash)
		bytes -= size
	}
	return last, bytes, rows.Err()
}

// storageError gives an error of reading the kind Unavailable; nil stays nil.
func storageError(err error) error {
	return fault.Wrap(fault.Unavailable, "The gateway cannot read its storage right now", err)
}
