package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/site"
)

const (
	// metaCarry is the key of table meta that says where records of the journal are still
	// to be fetched from: the name of a database that was set aside, and the lowest seq.
	metaCarry = "carry"
	// carryStep is how many records one transaction carries over.
	carryStep = 2000
	// carryFirst is how long a start waits for records to be carried over, the newest
	// first; the rest follows while the gateway works. A disk that hangs costs no more.
	carryFirst = 4 * time.Second
)

func carryText(aside string, low uint64) string { return strconv.FormatUint(low, 10) + " " + aside }

// carrier fetches the records of a journal out of a database that was set aside, from
// the newest to the oldest, each with the seq and the hash that it had.
type carrier struct {
	db     *DB
	pages  *pages
	low    uint64 // nothing below is wanted
	leaves []leaf // not read yet, the newest first
	rows   []row  // read, the newest first
}

// carryOver fetches the records that a rescue left behind, in the background, and waits
// for carryFirst at most. What fails stays marked and is tried again at the next start:
// no door waits for old records.
func (db *DB) carryOver(ctx context.Context) {
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
	timer := time.NewTimer(carryFirst)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// carryAll fetches all records that are still to be fetched, until ctx ends.
func (db *DB) carryAll(ctx context.Context) (err error) {
	text, err := db.meta(ctx, metaCarry)
	if err != nil || text == "" {
		return err
	}
	low, name, _ := strings.Cut(text, " ")
	c := &carrier{db: db}
	if c.low, err = strconv.ParseUint(low, 10, 63); err != nil {
		c.low = 1
	}
	if c.pages, err = openPages(filepath.Join(filepath.Dir(db.path), filepath.Base(name))); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			db.log.Error("the database that was set aside is gone, and its records with it", "error", err)
			return db.setMeta(ctx, metaCarry, "")
		}
		return err
	}
	defer func() { err = errors.Join(err, c.pages.close()) }()
	c.leaves = c.pages.leaves(ctx)
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err == nil {
			done, err = c.step(ctx)
		}
	}
	return err
}

// step carries over the next records and reports whether these were the last.
func (c *carrier) step(ctx context.Context) (done bool, err error) {
	c.fill(carryStep + 1)
	rows := c.rows[:min(carryStep, len(c.rows))]
	rest := c.rows[len(rows):]
	done = len(rest) == 0
	err = c.db.do(ctx, func(t *transaction) error { return c.insert(t, rows, rest) })
	c.rows = rest
	return done, err
}

// fill reads pages until so many records are there, in order, or all are.
func (c *carrier) fill(wanted int) {
	for len(c.leaves) > 0 {
		if len(c.rows) >= wanted && uint64(c.rows[wanted-1].seq) > c.leaves[0].last { //nolint:gosec // a seq
			return
		}
		for _, r := range c.pages.rows(c.leaves[0]) {
			if uint64(r.seq) >= c.low { //nolint:gosec // a seq
				c.rows = append(c.rows, r)
			}
		}
		c.leaves = c.leaves[1:]
		if len(c.leaves) == 0 || len(c.rows) >= wanted {
			c.sort()
		}
	}
}

// sort sorts the records and removes duplicates; pages that are no longer in use may
// still hold some.
func (c *carrier) sort() {
	slices.SortFunc(c.rows, func(a, b row) int { return cmp.Compare(b.seq, a.seq) })
	c.rows = slices.CompactFunc(c.rows, func(a, b row) bool { return a.seq == b.seq })
}

// insert puts rows before the journal, with a record of each stretch that is missing
// between them. rest are those that follow.
func (c *carrier) insert(t *transaction, rows, rest []row) error {
	e, err := readEnds(context.Background(), t.conn)
	if err != nil {
		return err
	}
	first, above := e.anchor.seq+1, row{}
	bytes := e.bytes
	for _, r := range rows {
		seq := uint64(r.seq) //nolint:gosec // a seq
		if seq >= first {
			continue // it was carried over before the process ended
		}
		if seq < first-1 {
			t.records = append(t.records, c.hole(seq+1, first-1, r, above))
		}
		if _, err := t.exec("INSERT INTO journal (seq, time, station, body, hash) VALUES (?, ?, ?, ?, ?)", r.seq, r.time, r.station, r.body, r.hash[:]); err != nil {
			return err
		}
		first, above = seq, r
		bytes += int64(len(r.body))
	}
	var anchor [sha256.Size]byte // of none: the hash of the first record is taken on trust
	switch {
	case len(rest) > 0 && uint64(rest[0].seq) == first-1: //nolint:gosec // a seq
		anchor = rest[0].hash
	case first == e.anchor.seq+1:
		anchor = e.anchor.hash
	}
	if len(rest) == 0 {
		if first > c.low {
			t.records = append(t.records, c.hole(c.low, first-1, row{}, above))
		}
		if err := t.setMeta(metaCarry, ""); err != nil {
			return err
		}
	}
	if _, err := t.exec("UPDATE journal_ends SET first = ?, anchor = ?, bytes = ?", int64(first), anchor[:], bytes); err != nil { //nolint:gosec // seq fits
		return err
	}
	c.db.first, c.db.bytes, c.db.moved = first, bytes, true
	return nil
}

// hole returns the record of lost records, between two that are not lost; either may be
// zero.
func (c *carrier) hole(from, to uint64, below, above row) site.Record {
	when := func(r row) string {
		if r.seq == 0 {
			return "unknown"
		}
		return site.At(time.UnixMilli(r.time)).String()
	}
	r := site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{
		From: from, To: to, Count: int(to - from + 1), //nolint:gosec // fits for ever
		Detail: fmt.Sprintf("these records were on damaged pages and are lost; the one before them is of %s, the one after of %s", when(below), when(above)),
	}}
	c.db.stamp(&r)
	return r
}
