package sqlite

import (
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
func (db *DB) Oldest() uint64 { return db.oldest.Load() }

// Prune implements [journal.Store]. What the hard size asks for is settled once, before
// its first step, and so is the record of the gap. When the process ends between the
// steps, records remain that the gap has declared lost. They are delivered after all, or
// removed with the next gap. Neither does harm, because a follower of the journal goes by
// what comes.
func (db *DB) Prune(ctx context.Context, r journal.Retention) (journal.Removed, error) {
	p := pruner{db: db, Retention: r}
	if err := p.run(ctx); err != nil || r.HardBytes <= 0 || db.Bytes() <= r.HardBytes {
		return p.removed, err
	}
	var err error
	if p.end, err = db.overflow(ctx, r.HardBytes/100*hardShare); err != nil {
		return p.removed, err
	}
	err = p.run(ctx)
	return p.removed, err
}

// overflow returns the last of the oldest records that have to go for the rest to be no
// larger than so many bytes. It reads beside the writer, because these may be many.
func (db *DB) overflow(ctx context.Context, most int64) (end uint64, err error) {
	err = db.reading.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM
		(SELECT seq, sum(length(CAST(body AS BLOB))) OVER (ORDER BY seq DESC) AS rest FROM journal) WHERE rest > ?`, most).Scan(&end)
	return end, storageError(err)
}

// pruner is one call of [DB.Prune].
type pruner struct {
	db *DB
	journal.Retention
	end     uint64 // up to here the hard size asks for; 0: nothing
	gapped  bool   // whether the record of the gap is written
	removed journal.Removed
}

// run removes records step by step, each a transaction, until none has to go.
func (p *pruner) run(ctx context.Context) error {
	for {
		var step journal.Removed
		err := p.db.do(ctx, func(t *transaction) (err error) {
			step, err = p.step(t)
			return err
		})
		if err != nil {
			return err
		}
		p.removed.Records += step.Records
		p.removed.Undelivered += step.Undelivered
		p.gapped = p.gapped || step.Undelivered > 0
		if step.Records < pruneStep {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// step removes up to pruneStep records from the front and moves the anchor. It may be
// called again for the same transaction, and so changes nothing of p.
func (p *pruner) step(t *transaction) (journal.Removed, error) {
	e, err := readEnds(context.Background(), t.conn)
	if err != nil {
		return journal.Removed{}, err
	}
	held := uint64(math.MaxInt64)
	if p.Held != nil {
		held = min(p.Held(), math.MaxInt64)
	}
	last, bytes, err := p.cut(t, held)
	if err != nil || last.seq == 0 {
		return journal.Removed{}, err
	}
	if _, err := t.exec("DELETE FROM journal WHERE seq <= ?", int64(last.seq)); err != nil { //nolint:gosec // seq fits
		return journal.Removed{}, err
	}
	_, err = t.exec("UPDATE journal_ends SET first = ?, anchor = ?, bytes = ?", int64(last.seq+1), last.hash[:], bytes) //nolint:gosec // seq fits
	if err != nil {
		return journal.Removed{}, err
	}
	p.db.first, p.db.bytes, p.db.moved = last.seq+1, bytes, true
	if last.seq == p.db.tail.seq {
		p.db.floor.newest = 0
	}
	removed := journal.Removed{Records: int(last.seq - e.anchor.seq)} //nolint:gosec // at most pruneStep
	if from := max(held, e.anchor.seq) + 1; from <= last.seq {
		removed.Undelivered = int(last.seq - from + 1) //nolint:gosec // as above
		if !p.gapped {
			t.records = append(t.records, p.gap(from))
		}
	}
	return removed, nil
}

// gap is the record of everything that has to go from a seq on.
func (p *pruner) gap(from uint64) site.Record {
	r := site.Record{Kind: site.KindGap, Facts: site.Facts{
		From: from, To: p.end, Count: int(p.end - from + 1), Detail: gapDetail, //nolint:gosec // fits for ever
	}}
	p.db.stamp(&r)
	return r
}

// cut finds the last record that has to go, at most pruneStep from the front, and
// what bytes are left after it; the zero chain when none has to.
func (p *pruner) cut(t *transaction, held uint64) (last chain, left int64, err error) {
	oldest, left := int64(math.MinInt64), p.db.bytes
	if !p.Before.IsZero() {
		oldest = p.Before.UnixMilli()
	}
	var at, size int64
	scan := func(rows *sql.Rows) (c chain, err error) {
		var hash sql.RawBytes
		err = rows.Scan(&c.seq, &at, &size, &hash)
		copy(c.hash[:], hash)
		return c, err
	}
	for c, err := range each(context.Background(), t.conn, scan,
		"SELECT seq, time, length(CAST(body AS BLOB)), hash FROM journal ORDER BY seq LIMIT ?", pruneStep) {
		if err != nil {
			return chain{}, 0, err
		}
		asked := c.seq <= held && (at < oldest || left > p.MaxBytes)
		if c.seq > p.end && !asked {
			break
		}
		last = c
		left -= size
	}
	return last, left, nil
}
