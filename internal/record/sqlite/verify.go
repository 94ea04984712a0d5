package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// Verify implements [journal.Store].
func (db *DB) Verify(ctx context.Context) (journal.Verdict, error) {
	return atOnce(ctx, db.reader(), verify)
}

// Verify checks the journal in a database file that no gateway has open, or in a
// copy of one, which needs the log beside it. Records that the head or the copy beside it has
// seen, and that are not there, are missing. The file is not changed. Errors: NotFound;
// Forbidden; Unavailable when it cannot be read; Invalid when it is no database of ours;
// that of ctx.
func (f Files) Verify(ctx context.Context, path string) (journal.Verdict, error) {
	known := proof{head: readHead(path)}
	if copied, _, err := readCopy(ctx, path+".copy"); err == nil {
		known = readProof(ctx, path, copied)
		_ = copied.Close()
	}
	return readFile(ctx, path, "The database "+path, func(db *sql.DB) (journal.Verdict, error) {
		return atOnce(ctx, db, func(ctx context.Context, q queryer, e ends) (journal.Verdict, error) {
			v, err := verify(ctx, q, e)
			now, unread := progressOf(ctx, q)
			if newest := known.newest(now); err == nil && unread == nil && v.Broken == 0 && v.Last < newest {
				v.Broken = v.Last + 1
				v.Why = fmt.Sprintf("the newest records are missing, up to %d at least: the log beside the database was damaged or removed, or it is an older file", newest)
			}
			return v, errors.Join(err, unread)
		})
	})
}

// atOnce calls use in one read transaction with the journal's ends, so that a running
// gateway may go on writing.
func atOnce[T any](ctx context.Context, db *sql.DB, use func(context.Context, queryer, ends) (T, error)) (got T, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return got, storageError(err)
	}
	defer func() { _ = tx.Rollback() }()
	e, err := readEnds(ctx, tx)
	if err == nil {
		got, err = use(ctx, tx, e)
	}
	return got, storageError(err)
}

// verify walks the chain.
func verify(ctx context.Context, q queryer, e ends) (v journal.Verdict, err error) {
	v.First, v.Last = e.anchor.seq+1, e.last.seq
	w := walk{at: e.anchor, saved: e.saved, trust: e.anchor.seq > 0 && e.anchor.hash == chain{}.hash}
	for row, unread := range each(ctx, q, scanVerified, "SELECT seq, time, station, body, hash FROM journal ORDER BY seq") {
		if err = unread; err != nil {
			break
		}
		w.see(&v, row)
	}
	switch {
	case isDamage(err):
		w.blame(&v, w.at.seq+1, "the records from here on are on a damaged page: restart the gateway, which carries over what can be read")
	case err != nil:
		return v, err
	case w.at != e.last:
		w.blame(&v, min(w.at.seq, e.last.seq)+1, "the newest records were removed or added")
	}
	w.judge(&v)
	return v, nil
}

// walk is the state of a walk along the chain.
type walk struct {
	at    chain
	saved chain  // the end that journal_ends names; fewer than endsLag records follow it
	trust bool   // the next record's hash is not checked: what it builds on is lost
	holes []hole // records that are not there
	known []hole // records that the journal itself reports as lost
	gone  []hole // records that were removed before their turn
	named []gap  // how many the journal itself reports as removed
}

// gap is how many records of a range were removed.
type gap struct {
	hole
	count uint64
	short bool // more are missing there
}

type hole struct{ from, to uint64 }

// see checks the next record; after the first fault it only looks for losses.
func (w *walk) see(v *journal.Verdict, row verifiedRow) {
	r, damage := decode(row.body)
	if damage == nil && r.Kind == site.KindRecordsLost && r.From > 0 {
		w.known = append(w.known, hole{r.From, r.To})
	}
	if damage == nil && r.Kind == site.KindGap && r.From > 0 {
		w.named = append(w.named, gap{hole: hole{r.From, r.To}, count: uint64(r.Count)}) //nolint:gosec // compared only
	}
	if v.Broken != 0 {
		return
	}
	if first, ok := firstRemoved(row.body); ok {
		w.skip(v, first, row)
		return
	}
	seq := uint64(row.seq) //nolint:gosec // compared only
	if seq > w.at.seq+1 {
		w.holes = append(w.holes, hole{w.at.seq + 1, seq - 1})
		w.at.seq, w.trust = seq-1, true
	}
	expected := w.at.next(row.body)
	if w.trust {
		copy(expected.hash[:], row.hash)
		w.trust = false
	}
	if why := row.fault(expected, r, damage); why != "" {
		w.blame(v, expected.seq, why)
		return
	}
	if expected.seq == w.saved.seq && expected != w.saved || expected.seq >= w.saved.seq+endsLag {
		w.blame(v, expected.seq, "the newest records were removed or added")
		return
	}
	w.at = expected
	v.Records++
}

// skip goes on behind the removed records that a row stands for.
func (w *walk) skip(v *journal.Verdict, first uint64, row verifiedRow) {
	seq := uint64(row.seq) //nolint:gosec // compared only
	if first > seq || first <= w.at.seq || len(row.hash) != sha256.Size {
		w.blame(v, w.at.seq+1, "the record was changed")
		return
	}
	if first > w.at.seq+1 {
		w.holes = append(w.holes, hole{w.at.seq + 1, first - 1})
	}
	w.gone = append(w.gone, hole{first, seq})
	w.at, w.trust = chain{seq, [sha256.Size]byte(row.hash)}, false
	if seq == w.saved.seq && w.at != w.saved {
		w.blame(v, seq, "the newest records were removed or added")
	}
}

// blame names the first record that is not as it was written.
func (w *walk) blame(v *journal.Verdict, seq uint64, why string) {
	if v.Broken == 0 {
		v.Broken, v.Why = seq, why
	}
}

// judge counts the holes that the journal reports, and names the first other one.
func (w *walk) judge(v *journal.Verdict) {
	w.judgeGone(v)
	for _, h := range w.holes {
		if slices.Contains(w.known, h) {
			v.Lost += h.to - h.from + 1
			continue
		}
		if v.Broken == 0 || h.from < v.Broken {
			v.Broken, v.Why = h.from, "the record is missing"
		}
		return
	}
}

// judgeGone counts the records that were removed before their turn. Where the journal does
// not report all of them, others were removed too.
func (w *walk) judgeGone(v *journal.Verdict) {
	for i, g := range w.named {
		w.named[i].short = w.missing(g.hole) > g.count
	}
	for _, h := range w.gone {
		v.Removed += h.to - h.from + 1
		if !w.reported(h) && (v.Broken == 0 || h.from < v.Broken) {
			v.Broken, v.Why = h.from, "the record is missing"
		}
	}
}

// reported reports whether the journal reports the removal of each of these records, and
// of no fewer around them.
func (w *walk) reported(h hole) bool {
	for at := h.from; at <= h.to; {
		i := slices.IndexFunc(w.named, func(g gap) bool { return g.from <= at && at <= g.to })
		if i < 0 || w.named[i].short {
			return false
		}
		at = w.named[i].to + 1
	}
	return true
}

// missing returns how many records of a range were removed before their turn.
func (w *walk) missing(in hole) (count uint64) {
	i, _ := slices.BinarySearchFunc(w.gone, in.from, func(h hole, seq uint64) int { return cmp.Compare(h.to, seq) })
	for _, h := range w.gone[i:] {
		if h.from > in.to {
			break
		}
		count += min(h.to, in.to) - max(h.from, in.from) + 1
	}
	return count
}

type verifiedRow struct {
	seq, time, station int64
	body, hash         sql.RawBytes
}

func scanVerified(rows *sql.Rows) (r verifiedRow, err error) {
	err = rows.Scan(&r.seq, &r.time, &r.station, &r.body, &r.hash)
	return r, err
}

// fault returns what is wrong with the row that should be expected, or "". Its body was
// decoded as rec, unless that is damaged.
func (r verifiedRow) fault(expected chain, rec site.Record, damage error) string {
	switch {
	case uint64(r.seq) != expected.seq: //nolint:gosec // compared only
		return "the record is missing"
	case subtle.ConstantTimeCompare(r.hash, expected.hash[:]) != 1:
		return "the record or one before it was changed"
	case damage != nil, rec.Seq != expected.seq, rec.Time.UnixMilli() != r.time, int64(rec.Station) != r.station:
		return "the record does not agree with its own row"
	}
	return ""
}
