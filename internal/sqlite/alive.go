package sqlite

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
)

// metaAlive is the key of table meta that [DB.Alive] writes.
const metaAlive = "alive" // milliseconds since 1970 UTC

// errNoAnswer says that an earlier write has neither succeeded nor failed.
var errNoAnswer = errors.New("the store has not answered an earlier write")

// pulse is what [DB.Alive] remembers.
type pulse struct {
	born   time.Time    // when the store was opened; set before its writer starts
	wrote  atomic.Int64 // when the last transaction was on the disk, in nanoseconds since born; 0: none was
	asking atomic.Bool  // a write of Alive is under way
}

// Alive reports whether the store answers writes: nil at once where a transaction
// reached the disk within recent, so that a busy gateway writes nothing for it; else
// it makes a small one. A disk that refuses it, being full for example, has answered
// too: ending the process would not mend it. It fails when no answer comes before ctx
// ends. Safe for concurrent use; two at once share one write.
func (db *DB) Alive(ctx context.Context, recent time.Duration) error {
	if wrote := db.pulse.wrote.Load(); wrote != 0 && time.Since(db.pulse.born)-time.Duration(wrote) < recent {
		return nil
	}
	if !db.pulse.asking.CompareAndSwap(false, true) {
		return errNoAnswer
	}
	done := make(chan error, 1)
	go func() {
		defer db.pulse.asking.Store(false)
		done <- db.setMeta(ctx, metaAlive, strconv.FormatInt(time.Now().UnixMilli(), 10))
	}()
	select {
	case err := <-done:
		if fault.Is(err, fault.Unavailable) {
			return nil
		}
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.Timeout, errStorage, ctx.Err())
	}
}

// beat notes that a transaction is on the disk.
func (p *pulse) beat() { p.wrote.Store(int64(time.Since(p.born))) }
