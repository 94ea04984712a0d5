package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// Evidence, see [site.Kind.Evidence], is removed before its turn where it exceeds its
// share. Of each run of neighbours the last row stays, with its hash, on which the chain
// goes on; in the place of its body stands removedMark with the seq of the first. A record
// of the kind gap, which is chained, says between which numbers how many were removed: so
// nothing else can be removed in the same way.
const removedMark = "removed from "

// notRemoved is a condition of SQL for rows that have a body.
const notRemoved = "body NOT GLOB '" + removedMark + "*'"

// evidenceDetail is the reason in the record of a removal.
const evidenceDetail = "what strangers and stations cause has filled its share of the journal, and the oldest of it was removed"

// firstRemoved returns the seq of the first of the removed records that a row stands for;
// false for the row of a record.
func firstRemoved(body []byte) (seq uint64, ok bool) {
	text, ok := bytes.CutPrefix(body, []byte(removedMark))
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(text), 10, 63)
	return seq, err == nil
}

// isEvidence reports whether a body is that of evidence. Before its kind a record has only
// what the gateway itself writes.
func isEvidence(body []byte) bool {
	_, rest, _ := bytes.Cut(body, []byte(`"kind":"`))
	kind, _, _ := bytes.Cut(rest, []byte{'"'})
	return site.Kind(kind).Evidence()
}

// countEvidence returns how many bytes of evidence there are behind a seq.
func countEvidence(ctx context.Context, q queryer, after uint64) (size int64, err error) {
	for body, err := range each(ctx, q, column[sql.RawBytes], "SELECT body FROM journal WHERE seq > ? ORDER BY seq", int64(after)) { //nolint:gosec // seq fits
		if err != nil {
			return size, err
		}
		if isEvidence(body) {
			size += int64(len(body))
		}
	}
	return size, nil
}

// readEvidence returns how many bytes of evidence there are; saved is the end that the row
// of journal_ends names.
func readEvidence(ctx context.Context, q queryer, saved uint64) (size int64, err error) {
	if err := q.QueryRowContext(ctx, "SELECT evidence FROM journal_ends").Scan(&size); err != nil {
		return 0, fmt.Errorf("reading the share of evidence: %w", err)
	}
	if size < 0 {
		size, saved = 0, 0
	}
	more, err := countEvidence(ctx, q, saved)
	if isDamage(err) { // it keeps no door shut
		err = nil
	}
	return size + more, err
}

// Evidence implements [journal.Store].
func (db *DB) Evidence() int64 { return db.durable.Load().evidence }

// pruneEvidence removes the oldest evidence beyond its share.
func (db *DB) pruneEvidence(ctx context.Context, r journal.Retention) (removed journal.Removed, err error) {
	end, err := db.dueEvidence(ctx, r)
	if err != nil {
		return removed, err
	}
	for from := max(db.searched, db.Oldest()); from <= end; {
		var s trimmed
		err := db.do(ctx, func(t *transaction) (err error) {
			if s, err = db.trim(t, from, min(from+pruneStep-1, end)); err == nil && s.count > 0 {
				gap := site.Record{Kind: site.KindGap, Facts: site.Facts{From: s.first, To: s.last, Count: s.count, Detail: evidenceDetail}}
				db.stamp(&gap)
				t.records = append(t.records, gap)
			}
			return err
		})
		if err != nil {
			return removed, err
		}
		removed.Records += s.count
		if s.last > r.Held {
			removed.Undelivered += s.count
		}
		from += pruneStep
		db.searched = from
	}
	return removed, nil
}

// dueEvidence returns the last record up to which evidence has to go; 0: none has.
func (db *DB) dueEvidence(ctx context.Context, r journal.Retention) (end uint64, err error) {
	left := db.Evidence()
	soft, hard := r.Evidence()
	if left <= soft {
		return 0, nil
	}
	scan := func(rows *sql.Rows) (row verifiedRow, err error) {
		err = rows.Scan(&row.seq, &row.body)
		return row, err
	}
	for row, err := range each(ctx, db.reader(), scan, "SELECT seq, body FROM journal WHERE seq >= ? ORDER BY seq", int64(db.searched)) { //nolint:gosec // seq fits
		if err != nil {
			return end, err
		}
		if !isEvidence(row.body) {
			continue
		}
		seq, most := uint64(row.seq), soft //nolint:gosec // seq fits
		if seq > r.Held {
			most = hard
		}
		if end > 0 {
			most = most / 100 * hardShare
		}
		if left <= most {
			break
		}
		end = seq
		left -= int64(len(row.body))
	}
	return end, nil
}

// trimmed is what one step has removed.
type trimmed struct {
	first, last uint64 // of the removed records
	count       int
}

// run is a run of neighbours in the journal.
type run struct {
	first, last uint64
}

// trim removes the evidence in a range.
func (db *DB) trim(t *transaction, from, to uint64) (s trimmed, err error) {
	var runs []run
	var size int64
	scan := func(rows *sql.Rows) (row verifiedRow, err error) {
		err = rows.Scan(&row.seq, &row.body)
		return row, err
	}
	for row, err := range each(context.Background(), t.conn, scan, "SELECT seq, body FROM journal WHERE seq BETWEEN ? AND ? ORDER BY seq", int64(from), int64(to)) { //nolint:gosec // seq fits
		if err != nil {
			return s, err
		}
		if !isEvidence(row.body) {
			continue
		}
		seq := uint64(row.seq) //nolint:gosec // seq fits
		if n := len(runs); n > 0 && runs[n-1].last+1 == seq {
			runs[n-1].last = seq
		} else {
			runs = append(runs, run{seq, seq})
		}
		s.count++
		size += int64(len(row.body))
	}
	if s.count == 0 {
		return s, nil
	}
	s.first, s.last = runs[0].first, runs[len(runs)-1].last
	db.bytes, db.evidence, db.moved = db.bytes-size, max(db.evidence-size, 0), true
	for _, r := range runs {
		if err := db.replaceRun(t, r); err != nil {
			return s, err
		}
	}
	return s, nil
}

// replaceRun leaves one row in the place of a run of records, and of a run before it that
// was removed already.
func (db *DB) replaceRun(t *transaction, r run) error {
	var before []byte
	err := t.conn.QueryRowContext(context.Background(), "SELECT coalesce(max(body), '') FROM journal WHERE seq = ?", int64(r.first-1)).Scan(&before) //nolint:gosec // seq fits
	if err != nil {
		return err
	}
	if first, ok := firstRemoved(before); ok {
		db.bytes -= int64(len(before))
		_, err = t.exec("DELETE FROM journal WHERE seq = ?", int64(r.first-1)) //nolint:gosec // seq fits
		r.first = first
	}
	if err == nil {
		_, err = t.exec("DELETE FROM journal WHERE seq >= ? AND seq < ?", int64(r.first), int64(r.last)) //nolint:gosec // seq fits
	}
	if err != nil {
		return err
	}
	mark := removedMark + strconv.FormatUint(r.first, 10)
	db.bytes += int64(len(mark))
	_, err = t.exec("UPDATE journal SET station = 0, body = ? WHERE seq = ?", mark, int64(r.last)) //nolint:gosec // seq fits
	return err
}
