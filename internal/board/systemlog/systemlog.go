// Package systemlog writes the log of the process (log/slog) so that no caller ever
// waits for its reader: a log call formats its line into a bounded queue, and one
// goroutine writes the queue out. It also bounds the lines that the outside can cause
// ([Limiter]). It is not the journal, which is durable and drops nothing.
//
// Promise: no reader of the log, stalled or ended, delays or ends anything.
package systemlog

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// queueSize bounds the lines that wait, in bytes; the writer may hold as much
	// again.
	queueSize = 1 << 20
	// chatterSize is the part of it that lines below the level Warn may fill. The rest
	// is for what must not be lost to them: above all journal records that the disk did
	// not take.
	chatterSize = queueSize / 2
	// mostSpare is the most that is kept of it, in bytes, when it is empty.
	mostSpare = 64 << 10
)

// Queue is a log that never blocks its callers. Lines that do not fit are dropped and
// counted; the count is logged as soon as there is room. Safe for concurrent use.
type Queue struct {
	out    io.Writer
	logger *slog.Logger
	wake   chan struct{} // capacity 1
	done   chan struct{} // closed when the writer has ended

	mu      sync.Mutex // mu guards what follows
	waiting []byte     // whole lines
	dropped int        // lines since the last count that was logged
	closed  bool
}

// New starts a log that writes to out, as JSON or as text. Close must be called at the
// end. Errors of out are ignored, and the lines concerned are lost.
func New(out io.Writer, json bool, level slog.Leveler) *Queue {
	q := &Queue{out: out, wake: make(chan struct{}, 1), done: make(chan struct{})}
	options := &slog.HandlerOptions{Level: level}
	format := func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) }
	if json {
		format = func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, options) }
	}
	q.logger = slog.New(handler{format(lane{q, chatterSize}), format(lane{q, queueSize})})
	go q.write()
	return q
}

// Logger returns the logger whose lines go through the queue.
func (q *Queue) Logger() *slog.Logger { return q.logger }

// Close writes the pending lines, for at most patience. Lines that are logged later may
// be lost. It may be called once.
func (q *Queue) Close(patience time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	}
}

// handler sends a record to one of two lanes by its level.
type handler struct{ chatter, important slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.chatter.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.chatter.Handle(ctx, r)
	}
	return h.important.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.chatter.WithAttrs(attrs), h.important.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.chatter.WithGroup(name), h.important.WithGroup(name)}
}

// lane takes whole lines into the queue while it holds less than most.
type lane struct {
	queue *Queue
	most  int
}

// Write implements [io.Writer]; it never fails.
func (l lane) Write(line []byte) (int, error) {
	q := l.queue
	q.mu.Lock()
	if len(q.waiting)+len(line) > l.most {
		q.dropped++
	} else {
		q.waiting = append(q.waiting, line...)
	}
	q.mu.Unlock()
	q.signal()
	return len(line), nil
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// write is the writer goroutine: it ends when the queue is closed and empty.
func (q *Queue) write() {
	defer close(q.done)
	var lines []byte
	for {
		var dropped int
		var closed bool
		lines, dropped, closed = q.take(lines)
		if dropped > 0 {
			q.logger.Warn("log lines dropped", "count", dropped)
		}
		switch {
		case len(lines) > 0:
			_, _ = q.out.Write(lines)
		case dropped > 0:
		case closed:
			return
		default:
			<-q.wake
		}
	}
}

// take empties the queue and returns its lines. The lines that were written last become the
// room for those to come.
func (q *Queue) take(written []byte) (lines []byte, dropped int, closed bool) {
	if cap(written) > mostSpare {
		written = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	lines, dropped = q.waiting, q.dropped
	q.waiting, q.dropped = written[:0], 0
	return lines, dropped, q.closed
}
