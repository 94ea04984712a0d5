package sqlite

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
)

// Verify implements [journal.Store].
func (db *DB) Verify(ctx context.Context) (journal.Verdict, error) { return verify(ctx, db.reading) }

// VerifyFile checks the journal in a database file that no gateway has open, or
// in a copy of one. The file is not changed.
func VerifyFile(ctx context.Context, path string) (journal.Verdict, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return journal.Verdict{}, fault.Wrap(fault.NotFound, "There is no database at "+path, err)
	} else if err != nil {
		return journal.Verdict{}, fault.Wrap(fault.Unavailable, "The database "+path+" cannot be read", err)
	}
	options := "mode=ro&_dqs=0"
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() == 0 {
		options += "&immutable=1" // a copy in a folder that cannot be written to
	}
	db, err := sql.Open("sqlite", dsn(path, options))
	if err != nil {
		return journal.Verdict{}, fmt.Errorf("opening %s: %w", path, err)
	}
	verdict, err := verify(ctx, db)
	if err != nil {
		err = fault.Wrap(fault.Invalid, path+" is not a readable gatehouse database; a copy of a running gateway's needs its -wal file beside it", err)
	}
	return verdict, errors.Join(err, db.Close())
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
	at := e.anchor
	for rows.Next() {
		var row verifiedRow
		if err := rows.Scan(&row.seq, &row.time, &row.station, &row.body, &row.hash); err != nil {
			return v, storageError(err)
		}
		expected := at.next(row.body)
		if why := row.fault(expected); why != "" {
			v.Broken, v.Why = expected.seq, why
			return v, nil
		}
		at = expected
		v.Records++
	}
	if err := rows.Err(); err != nil {
		return v, storageError(err)
	}
	if at != e.last {
		v.Broken, v.Why = min(at.seq, e.last.seq)+1, "the newest records were removed or added"
	}
	return v, nil
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
