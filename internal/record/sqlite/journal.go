package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// Flush implements [journal.Store]: an empty use case takes what waits with it, as much
// as one transaction may hold.
func (db *DB) Flush(ctx context.Context) error {
	for waiting := db.Kept(); ; waiting -= maxBatch {
		if err := db.do(ctx, nil); err != nil || waiting <= maxBatch {
			return err
		}
	}
}

// Kept implements [journal.Store].
func (db *DB) Kept() int { return db.queue.kept() }

// Bytes implements [journal.Store].
func (db *DB) Bytes() int64 { return db.size.Load() }

// Latest implements [journal.Store].
func (db *DB) Latest() uint64 { return db.latest.Load() }

// Size implements [journal.Store].
func (db *DB) Size() journal.Size {
	first, last := db.oldest.Load(), db.latest.Load()
	size := journal.Size{Bytes: db.size.Load(), Last: last}
	if first <= last {
		size.First, size.Records = first, int64(last-first+1) //nolint:gosec // fits
	}
	return size
}

// Read implements [journal.Store].
func (db *DB) Read(ctx context.Context, q journal.Query) ([]site.Record, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	since, until := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		since = q.Since.UnixMilli()
	}
	if !q.Until.IsZero() {
		until = q.Until.UnixMilli()
	}
	rows, err := db.reading.QueryContext(ctx,
		"SELECT body FROM journal WHERE seq > ? AND time >= ? AND time < ? AND (? = 0 OR station = ?) ORDER BY seq",
		int64(q.AfterSeq), since, until, int64(q.Station), int64(q.Station)) //nolint:gosec // seq fits
	if err != nil {
		return nil, storageError(err)
	}
	var records []site.Record
	var broken error
	err = eachRecord(rows, func(r site.Record, damaged error) bool {
		if damaged == nil && q.Matches(r) {
			records = append(records, r)
		}
		broken = damaged
		return damaged == nil && len(records) < limit
	})
	return records, storageError(errors.Join(err, broken))
}

// once returns the texts that mark records which a start needs: keys and ids of
// commands that are carried out once, and the kinds of records that show where such are
// missing.
func once() [][]byte {
	return [][]byte{
		[]byte(`"idempotencyKey":`), []byte(`"jti":`),
		[]byte(`"kind":"` + string(site.KindRestored) + `"`), []byte(`"kind":"` + string(site.KindRecordsLost) + `"`),
	}
}

// Recent implements [journal.Store].
func (db *DB) Recent(ctx context.Context, most, within int, span time.Duration) ([]site.Record, error) {
	rows, err := db.reading.QueryContext(ctx, "SELECT body FROM journal ORDER BY seq DESC LIMIT ?", within)
	if err != nil {
		return nil, storageError(err)
	}
	var records []site.Record
	var last site.Record // of its run
	over := false
	use := func(r site.Record, damaged error) bool {
		switch {
		case damaged != nil:
			return true
		case r.Kind == site.KindRestored, r.Kind == site.KindRecordsLost:
			records = append(records, r)
			return true
		case r.Kind != site.KindUnlock:
			return true
		}
		if r.Boot != last.Boot {
			last = r
		}
		if over = last.Time.Sub(r.Time.Time) >= span; over && len(records) >= most {
			return false
		}
		records = append(records, r)
		return len(records) < most || !over
	}
	needles := once()
	err = eachBody(rows, func(body []byte) bool {
		needed := func(needle []byte) bool { return bytes.Contains(body, needle) }
		if len(records) >= most && !slices.ContainsFunc(needles, needed) { // decoding is what takes time
			return true
		}
		return use(decode(body))
	})
	slices.Reverse(records)
	return records, storageError(err)
}

// A command's records are looked for among those written within commandTime of its
// creation, but among at least commandLeast, because clocks may have been set, and at
// most commandSpan.
const (
	commandTime  = 10 * time.Minute
	commandLeast = 200
	commandSpan  = 5000
)

// OfCommand implements [journal.Store]. Only records with the id in them are decoded:
// an account may ask for invented ids.
func (db *DB) OfCommand(ctx context.Context, id site.CommandID, made time.Time) ([]site.Record, error) {
	after, err := db.before(ctx, made)
	if err != nil {
		return nil, storageError(err)
	}
	last, err := db.before(ctx, made.Add(commandTime))
	if err != nil {
		return nil, storageError(err)
	}
	last = min(max(last, after+commandLeast), after+commandSpan)
	rows, err := db.reading.QueryContext(ctx,
		"SELECT body FROM journal WHERE seq > ? AND seq <= ? AND instr(body, ?) > 0 ORDER BY seq",
		int64(after), int64(last), string(id)) //nolint:gosec // seq fits
	if err != nil {
		return nil, storageError(err)
	}
	var records []site.Record
	err = eachRecord(rows, func(r site.Record, damaged error) bool {
		if damaged == nil && r.Command == id {
			records = append(records, r)
		}
		return true
	})
	return records, storageError(err)
}

// eachRecord calls use for each row's record, or with what is wrong with it, until
// use returns false.
func eachRecord(rows *sql.Rows, use func(r site.Record, damaged error) bool) error {
	return eachBody(rows, func(body []byte) bool { return use(decode(body)) })
}

// eachBody is eachRecord for records that are not decoded; use must not keep them.
func eachBody(rows *sql.Rows, use func(body []byte) bool) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var body sql.RawBytes
		if err := rows.Scan(&body); err != nil {
			return err
		}
		if !use(body) {
			return nil
		}
	}
	return rows.Err()
}

func decode(body []byte) (r site.Record, damaged error) {
	if damaged = json.Unmarshal(body, &r); damaged != nil {
		damaged = fmt.Errorf("a record is damaged (run gatehouse journal verify): %w", damaged)
	}
	return r, damaged
}

// before finds a seq after which the records of a moment are, by binary search. Within
// one run of the gateway seq and time rise together; over runs with an untrusted
// clock they need not, so that the result may be wrong then.
func (db *DB) before(ctx context.Context, t time.Time) (uint64, error) {
	e, err := readEnds(ctx, db.reading)
	if err != nil {
		return 0, err
	}
	low, high := e.anchor.seq+1, e.last.seq+1
	for low < high {
		middle := low + (high-low)/2
		var at int64
		err := db.reading.QueryRowContext(ctx, "SELECT time FROM journal WHERE seq >= ? ORDER BY seq LIMIT 1", int64(middle)).Scan(&at) //nolint:gosec // seq fits
		if err != nil {
			return 0, fmt.Errorf("finding the records of %s: %w", site.At(t), err)
		}
		if at < t.UnixMilli() {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1, nil
}

// storageError returns an error of reading with the kind Unavailable; nil stays nil.
func storageError(err error) error {
	return fault.Wrap(fault.Unavailable, "The gateway cannot read its storage right now", err)
}
