package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// Head implements [journal.Store].
func (db *DB) Head(ctx context.Context) (journal.Head, error) {
	e, err := readEnds(ctx, db.reader())
	return headOf(e.last), storageError(err)
}

// HashAt returns the hash of a record in hexadecimal, or that of the position before
// the first; "" if there is neither.
func (db *DB) HashAt(ctx context.Context, seq uint64) (string, error) {
	return atOnce(ctx, db.reader(), func(ctx context.Context, q queryer, e ends) (string, error) {
		hash, err := hashAt(ctx, q, e, seq)
		return hex.EncodeToString(hash), err
	})
}

func headOf(at chain) journal.Head {
	return journal.Head{Seq: at.seq, Hash: hex.EncodeToString(at.hash[:])}
}

// Testify implements [journal.Store].
func (db *DB) Testify(ctx context.Context, witnesses []journal.Witness) ([]journal.Testimony, error) {
	return atOnce(ctx, db.reader(), testify(witnesses))
}

// TestifyFile compares witnesses with the journal in a database file that no gateway has
// open, or in a copy of one. Errors are those of [Files.Verify].
func TestifyFile(ctx context.Context, path string, witnesses []journal.Witness) ([]journal.Testimony, error) {
	return readFile(ctx, path, "The database "+path, func(db *sql.DB) ([]journal.Testimony, error) { return atOnce(ctx, db, testify(witnesses)) })
}

// testify returns a function that compares witnesses with a journal.
func testify(witnesses []journal.Witness) func(context.Context, queryer, ends) ([]journal.Testimony, error) {
	return func(ctx context.Context, q queryer, e ends) (all []journal.Testimony, err error) {
		restored, err := lastRestore(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, w := range witnesses {
			hash, err := hashAt(ctx, q, e, w.Seq)
			if err != nil {
				return nil, err
			}
			all = append(all, journal.Testimony{Witness: w, Statement: statement(w, e, hash, restored)})
		}
		return all, nil
	}
}

// statement compares a witness with a chain that has hash at its position.
func statement(w journal.Witness, e ends, hash []byte, restored time.Time) journal.Statement {
	switch {
	case strings.EqualFold(w.Hash, hex.EncodeToString(hash)) && w.Seq <= e.last.seq:
		return journal.Agrees
	case w.Seq < e.anchor.seq, hash == nil && w.Seq <= e.last.seq: // a hole that is not on record breaks the chain
		return journal.Gone
	case !w.Time.IsZero() && w.Time.Before(restored):
		return journal.Superseded
	default:
		return journal.Contradicts
	}
}

// hashAt returns the hash of a record, or that of the position before the first; nil if
// there is neither.
func hashAt(ctx context.Context, q queryer, e ends, seq uint64) (hash []byte, err error) {
	if seq == e.anchor.seq && (seq == 0 || e.anchor != chain{seq: seq}) { // unknown after damage
		return e.anchor.hash[:], nil
	}
	err = q.QueryRowContext(ctx, "SELECT hash FROM journal WHERE seq = ?", int64(seq)).Scan(&hash) //nolint:gosec // none is so large
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return hash, err
}

// lastRestore returns when the gateway was last restored from a backup, by its own
// journal; zero where it never was.
func lastRestore(ctx context.Context, q queryer) (time.Time, error) {
	var at int64
	err := q.QueryRowContext(ctx, "SELECT coalesce(max(time), 0) FROM journal WHERE body LIKE ?",
		`%"kind":"`+string(site.KindRestored)+`"%`).Scan(&at)
	return fromMillis(at), err
}
