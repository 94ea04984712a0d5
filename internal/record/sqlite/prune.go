package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"math"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

const (
	// pruneStep is how many records one transaction removes, so that an unlock never
	// waits long behind retention.
	pruneStep = 500
	// hardShare is how many percent of the hard size are left when it was reached, so
	// that one record of a gap covers many records.
	hardShare = 95
)

// gapDetail is the reason in the record of a gap.
const gapDetail = "the journal reached its hard size before the cloud had taken these records"

// Oldest implements [journal.Store].
func (db *DB) Oldest() uint64 { return db.durable.Load().first }

// Prune implements [journal.Store]. What has to go is decided once, and so is the record
// of the gap. When the process ends between the steps, records remain that the gap has
// declared lost. They are delivered after all, or removed with the next gap. Neither does
// harm, because a follower of the journal goes by what comes.
func (db *DB) Prune(ctx context.Context, r journal.Retention) (removed journal.Removed, err error) {
	removed, err = db.pruneEvidence(ctx, r)
	var end uint64
	if err == nil {
		end, err = db.due(ctx, r)
	}
	if codeOf(err) != 0 && isDamage(err) { // no closed database
		db.noteDamage(err) // nothing is removed until it is set aside
	}
	if err != nil {
		return removed, storageError(err)
	}
	undelivered := 0
	gap := site.Record{Kind: site.KindGap, Facts: site.Facts{From: max(r.Held+1, db.Oldest()), To: end, Detail: gapDetail}}
	gap.Count = int(end + 1 - gap.From) //nolint:gosec // fits for ever where it is used
	for from := db.Oldest(); from <= end; from = db.Oldest() {
		var last uint64
		err := db.do(ctx, func(t *transaction) (err error) {
			if last, err = db.drop(t, end); err == nil && last >= gap.From && undelivered == 0 {
				db.stamp(&gap)
				t.records = append(t.records, gap)
			}
			return err
		})
		if err != nil {
			return removed, err
		}
		removed.Records += int(last + 1 - from) //nolint:gosec // fits for ever
		if last >= gap.From {
			removed.Undelivered -= undelivered
			undelivered = int(last + 1 - gap.From) //nolint:gosec // fits for ever
			removed.Undelivered += undelivered
		}
	}
	return removed, nil
}

// due returns the last record that has to go; 0: none has. It reads beside the writer,
// because these may be many.
func (db *DB) due(ctx context.Context, r journal.Retention) (end uint64, err error) {
	before, hard, left := int64(math.MinInt64), r.HardBytes, db.Bytes()
	if !r.Before.IsZero() {
		before = r.Before.UnixMilli()
	}
	steps := db.durable.Load().steps
	ahead := max(steps.to(db.clock.Now().UnixMilli()), 0) // no record was written since
	var at, size int64
	scan := func(rows *sql.Rows) (seq uint64, err error) {
		err = rows.Scan(&seq, &at, &size)
		return seq, err
	}
	for seq, err := range each(ctx, db.reader(), scan, "SELECT seq, time, length(CAST(body AS BLOB)) FROM journal ORDER BY seq") {
		switch {
		case err != nil:
			return end, err
		case seq <= r.Held && (at+steps.after(seq)+ahead < before || left > r.MaxBytes):
		case left > hard:
			hard = r.HardBytes / 100 * hardShare
		default:
			return end, nil
		}
		end = seq
		left -= size
	}
	return end, nil
}

// drop removes the oldest pruneStep records up to a seq, and moves the anchor to the last
// of them, which it returns.
func (db *DB) drop(t *transaction, end uint64) (last uint64, err error) {
	var hash []byte
	var size, evidence int64
	scan := func(rows *sql.Rows) (row verifiedRow, err error) {
		err = rows.Scan(&row.seq, &row.hash, &row.body)
		return row, err
	}
	for row, err := range each(context.Background(), t.conn, scan, "SELECT seq, hash, body FROM journal WHERE seq <= ? ORDER BY seq LIMIT ?", int64(end), pruneStep) { //nolint:gosec // seq fits
		if err != nil {
			return 0, err
		}
		last, hash = uint64(row.seq), bytes.Clone(row.hash) //nolint:gosec // seq fits
		size += int64(len(row.body))
		if isEvidence(row.body) {
			evidence += int64(len(row.body))
		}
	}
	if _, err = t.exec("DELETE FROM journal WHERE seq <= ?", int64(last)); err != nil { //nolint:gosec // seq fits
		return 0, err
	}
	db.first, db.bytes, db.evidence, db.moved = last+1, db.bytes-size, max(db.evidence-evidence, 0), true
	if last == db.tail.seq {
		db.floor.newest = 0
	}
	db.steps.drop(db.first)
	_, err = t.exec("UPDATE journal_ends SET first = ?, anchor = ?", int64(db.first), hash) //nolint:gosec // seq fits
	return last, err
}
