package sqlite

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
)

// metaAlive is the key of table meta that [DB.Alive] writes.
const metaAlive = "alive" // milliseconds since 1970 UTC

// pulse is what [DB.Alive] remembers.
type pulse struct {
	born  time.Time    // when the store was opened; set before its writer starts
	wrote atomic.Int64 // when the last transaction was on the disk, in nanoseconds since born; 0: none was

	mu     sync.Mutex // mu guards asking
	asking *question  // the write of Alive that is under way; nil: none is
}

// question is one write of [DB.Alive].
type question struct {
	done chan struct{} // closed when it was answered
	err  error         // set before that
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
	q := db.ask()
	select {
	case <-q.done:
		if fault.Is(q.err, fault.Unavailable) {
			return nil
		}
		return q.err
	case <-ctx.Done():
		return fault.Wrap(fault.Timeout, errStorage, ctx.Err())
	}
}

// ask gives the write that is under way, or begins one. It outlives whoever waits for
// it: the next who asks hears its answer, however late the disk gives it.
func (db *DB) ask() *question {
	p := &db.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking != nil {
		return p.asking
	}
	q := &question{done: make(chan struct{})}
	p.asking = q
	go func() {
		q.err = db.setMeta(context.Background(), metaAlive, strconv.FormatInt(time.Now().UnixMilli(), 10))
		p.mu.Lock()
		p.asking = nil
		p.mu.Unlock()
		close(q.done)
	}()
	return q
}

// beat notes that a transaction is on the disk.
func (p *pulse) beat() { p.wrote.Store(int64(time.Since(p.born))) }
