package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"gatehouse/internal/site"
)

// chain is a place in the journal: a seq and the hash of its record. The zero
// chain is the place before the first record.
type chain struct {
	seq  uint64
	hash [sha256.Size]byte
}

// next gives the place of the record that follows, whose text is body: the hash
// is SHA-256 over the hash before and the body.
func (c chain) next(body []byte) chain {
	h := sha256.New()
	h.Write(c.hash[:])
	h.Write(body)
	n := chain{seq: c.seq + 1}
	h.Sum(n.hash[:0])
	return n
}

// stamp fills in what a record does not state of its moment.
func (db *DB) stamp(r *site.Record) {
	if r.Time.IsZero() {
		r.Time = site.At(db.clock.Now())
		r.ClockTrusted = db.clock.Trusted()
	}
	if r.Boot == "" {
		r.Boot = db.boot
	}
}

// row is one record on its way into the journal.
type row struct {
	seq, time, station int64
	body               string
	hash               [sha256.Size]byte
}

// chainOn gives the record its place at the end of the chain.
func (db *DB) chainOn(r *site.Record) row {
	r.Seq = db.tail.seq + 1
	db.encoded = r.AppendJSON(db.encoded[:0])
	db.tail = db.tail.next(db.encoded)
	db.bytes += int64(len(db.encoded))
	db.floor.follow(r)
	return row{
		seq: int64(r.Seq), time: r.Time.UnixMilli(), station: int64(r.Station), //nolint:gosec // seq fits for ever
		body: string(db.encoded), hash: db.tail.hash,
	}
}

// insertMany is how many rows one statement inserts where there are as many.
const insertMany = 16

// insert writes rows, many at a time, because a statement costs more than its rows.
func (db *DB) insert(stmts statements, rows []row) error {
	for len(rows) > 0 {
		stmt, n := stmts.insert, 1
		if len(rows) >= insertMany {
			stmt, n = stmts.insertMany, insertMany
		}
		db.args = db.args[:0]
		for i := range rows[:n] {
			r := &rows[i]
			db.args = append(db.args, r.seq, r.time, r.station, r.body, r.hash[:])
		}
		if _, err := stmt.Exec(db.args...); err != nil {
			return fmt.Errorf("writing record %d: %w", rows[0].seq, err)
		}
		rows = rows[n:]
	}
	return nil
}

// readTail finds where the journal ends.
func (db *DB) readTail(ctx context.Context, conn *sql.Conn) error {
	e, err := readEnds(ctx, conn)
	if err != nil {
		return err
	}
	f, err := db.readFloor(ctx, conn)
	if err != nil {
		return err
	}
	db.span = span{first: e.anchor.seq + 1, tail: e.last, bytes: e.bytes, floor: f}
	db.sure.Store(f.sure)
	db.latest.Store(e.last.seq)
	db.size.Store(e.bytes)
	db.oldest.Store(e.anchor.seq + 1)
	return nil
}

// ends is the row of journal_ends: the place before the first kept record, the
// place of the last, and the bytes between.
type ends struct {
	anchor, last chain
	bytes        int64
}

// queryer is a connection or a pool.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readEnds(ctx context.Context, q queryer) (ends, error) {
	var first, last int64
	var anchor, hash []byte
	var e ends
	row := q.QueryRowContext(ctx, "SELECT first, anchor, last, hash, bytes FROM journal_ends")
	if err := row.Scan(&first, &anchor, &last, &hash, &e.bytes); err != nil {
		return ends{}, fmt.Errorf("reading the journal's ends: %w", err)
	}
	if len(anchor) != sha256.Size || len(hash) != sha256.Size || first < 1 || last < first-1 {
		return ends{}, errors.New("reading the journal's ends: the row is damaged")
	}
	e.anchor.seq, e.last.seq = uint64(first-1), uint64(last) //nolint:gosec // checked above
	copy(e.anchor.hash[:], anchor)
	copy(e.last.hash[:], hash)
	return e, nil
}
