package sqlite

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
)

// carryJournal appends the records of the trial as they are, and verifies them. Those of a
// damaged journal it appends up to the first fault.
func (t *taking) carryJournal(ctx context.Context, q queryer) error {
	mine, err := readEnds(ctx, t.conn)
	if err != nil {
		return err
	}
	t.at, t.bytes, t.taken.From = mine.last, mine.bytes, mine.last.seq+1
	if mine, err := newestRecord(ctx, t.conn); err == nil {
		t.newest = mine
	}
	e, err := readEnds(ctx, q)
	if err == nil {
		err = t.findFork(ctx, q, e)
	} else if t.newer != whole {
		e.saved.seq = math.MaxInt64 // unknown
	}
	if err != nil && t.newer == whole {
		return err
	}
	v, err := t.carryRecords(ctx, q, e)
	if err != nil {
		return err
	}
	if t.newer == whole && t.at != e.last {
		v.Broken, v.Why = min(t.at.seq, e.last.seq)+1, "the newest records were removed or added"
	}
	if t.newer == whole && v.Broken != 0 {
		return fault.New(fault.Conflict, fmt.Sprintf("the journal of the newer version is not whole at record %d: %s", v.Broken, v.Why))
	}
	t.taken.To, t.taken.Head, t.taken.Until = t.at.seq, headOf(t.at).Hash, t.newest.Time
	if t.newer != whole {
		return t.lose(ctx, q)
	}
	return nil
}

// carryRecords appends the records that follow those of the copy, until one is not as it
// was written. It takes note of the changes in those behind that, too.
func (t *taking) carryRecords(ctx context.Context, q queryer, e ends) (v journal.Verdict, err error) {
	insert, err := t.conn.PrepareContext(ctx, insertText)
	if err != nil {
		return v, err
	}
	defer func() { _ = insert.Close() }()
	const rest = "SELECT seq, time, station, body, hash FROM journal WHERE seq > ? ORDER BY seq"
	w := walk{at: t.at, saved: e.saved, trust: t.at.seq > 0 && t.at.hash == chain{}.hash}
	for row, unread := range each(ctx, q, scanVerified, rest, int64(t.at.seq)) { //nolint:gosec // seq fits
		if unread != nil && t.newer == whole {
			return v, unread
		}
		if unread != nil {
			w.blame(&v, w.at.seq+1, "it is on a damaged page")
			for row, unread := range each(ctx, q, scanVerified, rest+" DESC", int64(w.at.seq)) { //nolint:gosec // seq fits
				if unread != nil {
					break
				}
				t.note(row.body)
			}
			break
		}
		if t.newer != whole && uint64(row.seq) != w.at.seq+1 { //nolint:gosec // compared only
			w.blame(&v, w.at.seq+1, "the record is missing")
		}
		if w.see(&v, row); v.Broken == 0 {
			if _, err := insert.ExecContext(ctx, row.seq, row.time, row.station, string(row.body), []byte(row.hash)); err != nil {
				return v, err
			}
			t.bytes += int64(len(row.body))
			if r, err := decode(row.body); err == nil { // not that of a removed record
				t.newest = r
			}
			if t.taken.Since.IsZero() {
				t.taken.Since = t.newest.Time
			}
		} else if t.newer == whole {
			break
		}
		t.note(row.body)
	}
	w.judge(&v)
	t.at = w.at
	return v, ctx.Err()
}

// lose finds out which records may be lost behind those that were carried over, and leaves
// their numbers unused.
func (t *taking) lose(ctx context.Context, q queryer) error {
	_, high := usedNumbers(ctx, q, max(t.at.seq, readHead(t.cfg.Path)))
	if high <= t.at.seq {
		return nil
	}
	aside := filepath.Base(t.cfg.Path) + newerMark
	lost := loss(t.at.seq+1, high, aside)
	t.taken.Lost, t.taken.LostSince, t.taken.Aside = t.at.seq+1, t.newest.Time, aside
	t.at = chain{seq: high} // the next record is taken on trust
	return t.append(ctx, lost)
}

// note takes note of a record of the trial.
func (t *taking) note(body []byte) {
	if r, err := decode(body); err == nil && isChange(r.Kind) {
		t.changes = append(t.changes, r)
	}
}

// findFork finds where the journals of the copy and of the newer database, of which e are
// the ends, are the same for the last time, and leaves the copy's until there.
func (t *taking) findFork(ctx context.Context, q queryer, e ends) error {
	theirs, err := hashAt(ctx, q, e, t.at.seq)
	if err != nil || bytes.Equal(theirs, t.at.hash[:]) {
		return err
	}
	if e.anchor.seq >= t.at.seq { // retention has removed all that the copy has
		t.at, t.bytes = e.anchor, 0
		return errors.Join(t.exec(ctx, "DELETE FROM journal"),
			t.exec(ctx, "UPDATE journal_ends SET first = ?, anchor = ?", int64(e.anchor.seq+1), e.anchor.hash[:])) //nolint:gosec // seq fits
	}
	return t.findInterrupted(ctx, q, e)
}

// findInterrupted is findFork of a copy that a call which was killed had finished: the
// newer version may have been started since.
func (t *taking) findInterrupted(ctx context.Context, q queryer, e ends) error {
	before, ok, err := readTaken(ctx, t.conn)
	if err != nil {
		return err
	}
	theirs, err := hashAt(ctx, q, e, before.To)
	if err != nil {
		return err
	}
	if !ok || hex.EncodeToString(theirs) != before.Head {
		return fault.New(fault.Conflict, "the journal of the newer version does not continue that of its copy, as after a restore: start the newer version again; nothing was changed")
	}
	t.taken.From, t.taken.Since, t.taken.Undone, t.taken.More = before.From, before.Since, before.Undone, before.More
	t.at = chain{seq: before.To}
	copy(t.at.hash[:], theirs)
	err = t.exec(ctx, "DELETE FROM journal WHERE seq > ?", int64(before.To)) //nolint:gosec // seq fits
	if err == nil {
		err = t.conn.QueryRowContext(ctx, "SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM journal").Scan(&t.bytes)
	}
	return err
}
