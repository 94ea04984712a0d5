package sqlite

import (
	"bytes"
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// Verify implements [journal.Store].
func (db *DB) Verify(ctx context.Context) (journal.Verdict, error) { return verify(ctx, db.reading) }

// VerifyFile checks the journal in a database file that no gateway has open, or
// in a copy of one. The file is not changed.
func VerifyFile(ctx context.Context, path string) (verdict journal.Verdict, err error) {
	err = readFile(path, func(db *sql.DB) error {
		verdict, err = verify(ctx, db)
		return err
	})
	return verdict, err
}

// readFile reads a database file that no gateway has open, or a copy of one. Errors:
// NotFound, Unavailable where it cannot be read, Invalid where it is no database of ours.
func readFile(path string, read func(*sql.DB) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, "There is no database at "+path, err)
	} else if err != nil {
		return fault.Wrap(fault.Unavailable, "The database "+path+" cannot be read", err)
	}
	options := "mode=ro&_dqs=0"
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() == 0 {
		options += "&immutable=1" // a copy in a folder that cannot be written to
	}
	db, err := sql.Open("sqlite", dsn(path, options))
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	if err = read(db); isBusy(err) {
		err = errInUse("The database "+path, err)
	} else if err != nil {
		err = fault.Wrap(fault.Invalid, path+" is not a readable gatehouse database; a copy of a running gateway's needs its -wal file beside it", err)
	}
	return errors.Join(err, db.Close())
}

// verify walks the chain within one read transaction, so that a running gateway
// may go on writing.
func verify(ctx context.Context, db *sql.DB) (v journal.Verdict, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return v, storageError(err)
	}
	defer func() { _ = tx.Rollback() }()
	e, err := readEnds(ctx, tx)
	if err != nil {
		return v, storageError(err)
	}
	rows, err := tx.QueryContext(ctx, "SELECT seq, time, station, body, hash FROM journal ORDER BY seq")
	if err != nil {
		return v, storageError(err)
	}
	defer func() { _ = rows.Close() }()
	v.First, v.Last = e.anchor.seq+1, e.last.seq
	w := walk{at: e.anchor, saved: e.saved, trust: e.anchor.seq > 0 && e.anchor.hash == chain{}.hash}
	for rows.Next() {
		var row verifiedRow
		if err := rows.Scan(&row.seq, &row.time, &row.station, &row.body, &row.hash); err != nil {
			return v, storageError(err)
		}
		w.see(&v, row)
	}
	switch err := rows.Err(); {
	case isDamage(err):
		w.blame(&v, w.at.seq+1, "the records from here on stand on a damaged page: restart the gateway, which carries over what can be read")
	case err != nil:
		return v, storageError(err)
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
	told  []hole // records of which the journal itself says that they are lost
}

type hole struct{ from, to uint64 }

// lostField occurs in each record that reports lost records.
const lostField = `"kind":"` + string(site.KindRecordsLost) + `"`

// see checks the next record; after the first fault it only looks for losses.
func (w *walk) see(v *journal.Verdict, row verifiedRow) {
	if bytes.Contains(row.body, []byte(lostField)) {
		if r, err := decode(row.body); err == nil && r.From > 0 {
			w.told = append(w.told, hole{r.From, r.To})
		}
	}
	if v.Broken != 0 {
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
	if why := row.fault(expected); why != "" {
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

// blame names the first record that is not as it was written.
func (w *walk) blame(v *journal.Verdict, seq uint64, why string) {
	if v.Broken == 0 {
		v.Broken, v.Why = seq, why
	}
}

// judge counts the holes that the journal reports, and names the first other one.
func (w *walk) judge(v *journal.Verdict) {
	for _, h := range w.holes {
		if slices.Contains(w.told, h) {
			v.Lost += h.to - h.from + 1
			continue
		}
		if v.Broken == 0 || h.from < v.Broken {
			v.Broken, v.Why = h.from, "the record is missing"
		}
		return
	}
}

type verifiedRow struct {
	seq, time, station int64
	body, hash         sql.RawBytes
}

// fault says what is wrong with the row where expected should stand.
func (r verifiedRow) fault(expected chain) string {
	if uint64(r.seq) != expected.seq { //nolint:gosec // compared only
		return "the record is missing"
	}
	var rec site.Record
	switch {
	case subtle.ConstantTimeCompare(r.hash, expected.hash[:]) != 1:
		return "the record or one before it was changed"
	case json.Unmarshal(r.body, &rec) != nil,
		rec.Seq != expected.seq, rec.Time.UnixMilli() != r.time, int64(rec.Station) != r.station:
		return "the record does not agree with its own row"
	}
	return ""
}
