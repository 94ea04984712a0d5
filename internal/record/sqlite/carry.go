package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/site"
)

const (
	// metaCarry is the key of table meta that names what is still to be fetched: the
	// lowest seq, and the name of the database that was set aside.
	metaCarry = "carry"
	// carryStep is how many records one transaction carries over.
	carryStep = 2000
	// carryFirst is how long a start waits for records to be carried over, the newest
	// first; the rest follows while the gateway works. A disk that hangs costs no more.
	carryFirst = 4 * time.Second
)

func carryText(aside string, low uint64) string { return strconv.FormatUint(low, 10) + " " + aside }

// CarryOver records in the journal what was done with a damaged database, and fetches
// its records: the newest before it returns, the rest while the gateway works. It waits
// for 4 s at most. What fails is logged, stays marked and is tried again at the next
// start. It is called once, after [DB.UseClock].
func (db *DB) CarryOver(ctx context.Context) {
	if db.rescued != "" {
		db.AppendLater(site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{Detail: db.rescued}})
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.stopCarrying = stop
	db.carrying.Store(true)
	ended := make(chan struct{})
	db.background.Go(func() {
		defer close(ended)
		defer db.carrying.Store(false)
		if err := db.carryAll(working); err != nil {
			db.log.Error("records of the database that was set aside are carried over at the next start", "error", err)
		}
	})
	select {
	case <-ended:
	case <-time.After(carryFirst):
	case <-ctx.Done():
	}
}

// carryAll fetches all records that are still to be fetched, until ctx ends.
func (db *DB) carryAll(ctx context.Context) error {
	text, err := db.meta(ctx, metaCarry)
	if err != nil || text == "" {
		return err
	}
	low, name, _ := strings.Cut(text, " ")
	path := filepath.Join(filepath.Dir(db.path), filepath.Base(name))
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		db.log.Error("the database that was set aside is gone, and its records with it", "error", err)
		return db.setMeta(ctx, metaCarry, "")
	}
	aside, err := sql.Open("sqlite", dsn(path, salvagePragmas))
	if err != nil {
		return err
	}
	c := carrier{db: db, aside: aside, low: 1}
	if seq, err := strconv.ParseUint(low, 10, 63); err == nil {
		c.low = seq
	}
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err == nil {
			done, err = c.step(ctx)
		}
	}
	return errors.Join(err, aside.Close())
}

// carrier fetches the records of a journal out of a database that was set aside, from
// the newest to the oldest, each with the seq and the hash that it had.
type carrier struct {
	db    *DB
	aside *sql.DB
	low   uint64 // nothing below is wanted
}

// step carries over the next records and reports whether these were the last.
func (c *carrier) step(ctx context.Context) (done bool, err error) {
	below := c.db.Oldest()
	rows, err := c.read(ctx, below)
	if len(rows) == 0 && isDamage(err) && below > c.low+1 {
		next, lost := pastDamage(below-c.low, func(distance uint64) (uint64, error) { return c.newest(ctx, below-distance) })
		if err = lost; lost == nil {
			rows, err = c.read(ctx, next+1)
		}
	}
	if err != nil && !isDamage(err) {
		return false, err
	}
	done = len(rows) == 0 || err == nil && len(rows) < carryStep
	return done, c.db.do(ctx, func(t *transaction) error { return c.insert(t, rows, done) })
}

// isRecord is what a row of a damaged page must satisfy to be a record.
const isRecord = ` AND typeof(time) = 'integer' AND typeof(station) = 'integer' AND typeof(body) = 'text' AND length(hash) = 32
	AND instr(body, '{"seq":' || seq || ',') = 1 ORDER BY seq DESC LIMIT `

// newest returns the newest readable record below a seq, or 0 if there is none.
func (c *carrier) newest(ctx context.Context, below uint64) (seq uint64, err error) {
	err = c.aside.QueryRowContext(ctx, "SELECT seq FROM journal WHERE seq < ?"+isRecord+"1", int64(below)).Scan(&seq) //nolint:gosec // seq fits
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// read returns the records below a seq, the newest first, up to the first that cannot be
// read; then the error is the reason.
func (c *carrier) read(ctx context.Context, below uint64) (all []row, err error) {
	for r, err := range each(ctx, c.aside, scanRow, "SELECT seq, time, station, body, hash FROM journal WHERE seq < ? AND seq >= ?"+isRecord+"?",
		int64(below), int64(c.low), carryStep) { //nolint:gosec // seq fits
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

func scanRow(rows *sql.Rows) (r row, err error) {
	var hash []byte
	err = rows.Scan(&r.seq, &r.time, &r.station, &r.body, &hash)
	copy(r.hash[:], hash)
	return r, err
}

// insert puts rows before the journal, with a record of each stretch that is missing
// between them.
func (c *carrier) insert(t *transaction, rows []row, done bool) error {
	e, err := readEnds(context.Background(), t.conn)
	if err != nil {
		return err
	}
	first, bytes := e.anchor.seq+1, e.bytes
	for _, r := range rows {
		if seq := uint64(r.seq); seq < first-1 { //nolint:gosec // a seq
			t.records = append(t.records, c.hole(seq+1, first-1))
		}
		if _, err := t.exec("INSERT INTO journal (seq, time, station, body, hash) VALUES (?, ?, ?, ?, ?)", r.seq, r.time, r.station, r.body, r.hash[:]); err != nil {
			return err
		}
		first = uint64(r.seq) //nolint:gosec // a seq
		bytes += int64(len(r.body))
	}
	if done && first > c.low {
		t.records = append(t.records, c.hole(c.low, first-1))
	}
	if done {
		if err := t.setMeta(metaCarry, ""); err != nil {
			return err
		}
	}
	if first == e.anchor.seq+1 {
		return nil
	}
	// The hash before the first record is unknown: the first is taken on trust.
	if _, err := t.exec("UPDATE journal_ends SET first = ?, anchor = ?, bytes = ?", int64(first), make([]byte, sha256.Size), bytes); err != nil { //nolint:gosec // seq fits
		return err
	}
	c.db.first, c.db.bytes, c.db.moved = first, bytes, true
	return nil
}

// hole returns the record of lost records.
func (c *carrier) hole(from, to uint64) site.Record {
	r := site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{
		From: from, To: to, Count: int(to - from + 1), //nolint:gosec // fits for ever
		Detail: "these records were on damaged pages and are lost",
	}}
	c.db.stamp(&r)
	return r
}

// pastDamage finds the nearest readable record past damaged pages. at reads the nearest
// record at a distance or farther; at distance 0 it fails. Distances are up to most.
func pastDamage(most uint64, at func(distance uint64) (seq uint64, err error)) (found uint64, err error) {
	low, high := uint64(0), uint64(1) // low is damaged
	for found, err = at(high); err != nil; found, err = at(high) {
		if !isDamage(err) || high == most {
			return 0, err
		}
		low, high = high, min(2*high, most)
	}
	for low+1 < high {
		middle := low + (high-low)/2
		seq, err := at(middle)
		switch {
		case err == nil:
			found, high = seq, middle
		case isDamage(err):
			low = middle
		default:
			return 0, err
		}
	}
	return found, nil
}
