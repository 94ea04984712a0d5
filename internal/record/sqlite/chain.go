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

// next returns the place of the record that follows, whose text is body: the hash
// is SHA-256 over the hash before and the body.
func (c chain) next(body []byte) chain {
	h := sha256.New()
	h.Write(c.hash[:])
	h.Write(body)
	n := chain{seq: c.seq + 1}
	h.Sum(n.hash[:0])
	return n
}

// stamp sets the time and the boot of a record that has none.
func (db *DB) stamp(r *site.Record) {
	if r.Time.IsZero() {
		r.Time = site.At(db.clock.Now())
		r.ClockTrusted = db.clock.Trusted()
	}
	if r.Boot == "" {
		r.Boot = db.cfg.Boot
	}
}

// insertText adds a row to the journal.
const insertText = "INSERT INTO journal (seq, time, station, body, hash) VALUES (?, ?, ?, ?, ?)"

// chainAll writes lists of records, in their order.
func (db *DB) chainAll(lists ...[]site.Record) error {
	for _, records := range lists {
		for _, r := range records {
			if err := db.chainOn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// chainOn appends the record to the chain, within the present transaction.
func (db *DB) chainOn(r site.Record) error {
	r.Seq = db.tail.seq + 1
	db.encoded = r.AppendJSON(db.encoded[:0])
	db.tail = db.tail.next(db.encoded)
	db.bytes += int64(len(db.encoded))
	if r.Kind.Evidence() {
		db.evidence += int64(len(db.encoded))
	}
	db.floor.follow(&r)
	db.steps.follow(r.Seq, r.Time.UnixMilli())
	err := db.conn.exec(insertText, int64(r.Seq), r.Time.UnixMilli(), int64(r.Station), string(db.encoded), db.tail.hash[:]) //nolint:gosec // seq fits for ever
	if err != nil {
		return fmt.Errorf("writing record %d: %w", r.Seq, err)
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
	s, err := db.readSteps(ctx, conn)
	if err != nil {
		return err
	}
	evidence, err := readEvidence(ctx, conn, e.saved.seq)
	if err != nil {
		return err
	}
	db.span = span{first: e.anchor.seq + 1, tail: e.last, saved: e.saved.seq, bytes: e.bytes, evidence: evidence, floor: f, steps: s}
	db.publish()
	return nil
}

// publish shows other goroutines what is durable.
func (db *DB) publish() {
	now := db.span
	db.durable.Store(&now)
}

// endsLag is how far the row of journal_ends may be behind the journal: fewer records than
// this follow the end that it names. A record alone then writes one page, its own. What
// follows is chained, and the end is exact in a file that was closed.
const endsLag = 16

// ends are the place before the first kept record, the place of the last, and the bytes
// between.
type ends struct {
	anchor, last chain
	bytes        int64
	saved        chain // the end that the row of journal_ends names
}

// readEnds reads the ends in one statement, so that they are of one moment.
func readEnds(ctx context.Context, q queryer) (ends, error) {
	return scanEnds(q.QueryRowContext(ctx, `SELECT first, anchor, last, e.hash, coalesce(n.seq, last), coalesce(n.hash, e.hash),
		bytes + (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM journal WHERE seq > last)
		FROM journal_ends e LEFT JOIN (SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1) n ON n.seq > last`))
}

// savedEnds is readEnds by the row of journal_ends alone: fewer than endsLag records follow.
func savedEnds(ctx context.Context, q queryer) (ends, error) {
	return scanEnds(q.QueryRowContext(ctx, "SELECT first, anchor, last, hash, last, hash, bytes FROM journal_ends"))
}

func scanEnds(row *sql.Row) (ends, error) {
	var first, saved, last int64
	var anchor, savedHash, hash []byte
	var e ends
	if err := row.Scan(&first, &anchor, &saved, &savedHash, &last, &hash, &e.bytes); err != nil {
		return ends{}, fmt.Errorf("reading the journal's ends: %w", err)
	}
	if first < 1 || saved < first-1 {
		return ends{}, errEnds
	}
	e.anchor.seq, e.saved.seq, e.last.seq = uint64(first-1), uint64(saved), uint64(last) //nolint:gosec // checked above
	for _, h := range []struct{ into, from []byte }{{e.anchor.hash[:], anchor}, {e.saved.hash[:], savedHash}, {e.last.hash[:], hash}} {
		if len(h.from) != sha256.Size {
			return ends{}, errEnds
		}
		copy(h.into, h.from)
	}
	return e, nil
}

var errEnds = errors.New("reading the journal's ends: the row is damaged")
