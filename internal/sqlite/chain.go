package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
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

// insert appends one record to the chain.
func (db *DB) insert(stmts statements, r *site.Record) error {
	r.Seq = db.tail.seq + 1
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing record %d: %w", r.Seq, err)
	}
	tail := db.tail.next(body)
	_, err = stmts.insert.Exec(int64(r.Seq), r.Time.UnixMilli(), int64(r.Station), string(body), tail.hash[:]) //nolint:gosec // seq fits for ever
	if err != nil {
		return fmt.Errorf("writing record %d: %w", r.Seq, err)
	}
	db.tail = tail
	db.bytes += int64(len(body))
	return nil
}

// readTail finds where the journal ends.
func (db *DB) readTail(ctx context.Context, conn *sql.Conn) error {
	e, err := readEnds(ctx, conn)
	if err != nil {
		return err
	}
	db.tail, db.bytes = e.last, e.bytes
	db.latest.Store(e.last.seq)
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
