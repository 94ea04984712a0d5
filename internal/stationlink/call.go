package stationlink

import (
	"errors"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// wire is one live connection with the commands that wait on it.
type wire struct {
	conn  Conn
	slots chan struct{} // capacity maxPending: a place is taken for each pending call
	gone  chan struct{} // closed when the connection has ended

	mu      sync.Mutex // mu guards what follows
	ended   bool
	lastID  uint16
	pending []*call // at most maxPending
}

func newWire(c Conn) *wire {
	return &wire{conn: c, slots: make(chan struct{}, maxPending), gone: make(chan struct{})}
}

// call is one command that waits for its answer.
type call struct {
	command    site.CommandID
	lock       site.LockID
	packetID   uint16
	wantResult bool
	acked      bool
	done       chan site.Outcome // capacity 1; sent to once, by who takes the call out of pending
}

// Call implements the caller of package unlock. It blocks until the station
// answers or the command's deadline passes, whichever is first.
func (l *Link) Call(cmd site.Command, wantResult bool, mayLeave func() bool, left func()) site.Outcome {
	w := l.wire(cmd.Station)
	if w == nil {
		return site.StationGone
	}
	timer := time.NewTimer(time.Until(cmd.Deadline))
	defer timer.Stop()
	select {
	case w.slots <- struct{}{}:
	default:
		select {
		case w.slots <- struct{}{}:
		case <-w.gone:
			return site.StationGone
		case <-timer.C:
			return site.Expired
		}
	}
	defer func() { <-w.slots }()
	return w.call(cmd, wantResult, mayLeave, left, timer)
}

// Why a command must not be sent any more.
var (
	errMayNotLeave = errors.New("the right to it was lost while it waited")
	errNoTime      = errors.New("too little time is left for it")
)

func (w *wire) call(cmd site.Command, wantResult bool, mayLeave func() bool, left func(), timer *time.Timer) site.Outcome {
	qos, ok := w.conn.Subscribed()
	if !ok {
		return site.StationGone
	}
	c := &call{command: cmd.ID, lock: cmd.Lock, wantResult: wantResult, done: make(chan site.Outcome, 1)}
	if !w.add(c) {
		return site.StationGone
	}
	payload := func(b []byte) ([]byte, error) { // when nothing is left to wait for
		ttl := wholeSeconds(time.Until(cmd.Deadline))
		switch {
		case ttl <= 0:
			return nil, errNoTime
		case !mayLeave():
			return nil, errMayNotLeave
		}
		return appendCommand(b, cmd, ttl), nil
	}
	if err := w.conn.Send(c.packetID, qos, payload, cmd.Deadline); err != nil {
		return w.unsent(c, cmd.Deadline, err)
	}
	left()
	select {
	case outcome := <-c.done:
		return outcome
	case <-timer.C:
		return w.expire(c)
	}
}

// unsent ends a call whose command has not reached the station. A station that took
// none until the deadline has its connection reset: it may have forgotten to
// acknowledge the ones before.
func (w *wire) unsent(c *call, deadline time.Time, err error) site.Outcome {
	_, _ = w.giveUp(c)
	_, listening := w.conn.Subscribed()
	switch {
	case errors.Is(err, errMayNotLeave):
		return site.Refused
	case errors.Is(err, errNoTime):
		return site.Expired
	case time.Until(deadline) <= 0:
		w.conn.Reset("command not taken in time")
		return site.Expired
	case !listening:
		return site.StationGone
	}
	return site.Failed
}

// expire ends a call whose deadline has passed. Unless the station has
// acknowledged it, the connection is reset.
func (w *wire) expire(c *call) site.Outcome {
	outcome, answered := w.giveUp(c)
	if answered {
		return outcome
	}
	w.conn.Reset("command not acknowledged in time")
	return site.Expired
}

// giveUp forgets a call. It gives the answer that came first, if one did.
func (w *wire) giveUp(c *call) (outcome site.Outcome, answered bool) {
	w.mu.Lock()
	w.take(func(p *call) bool { return p == c })
	acked := c.acked
	w.mu.Unlock()
	select {
	case outcome = <-c.done:
		return outcome, true
	default:
	}
	return site.Acknowledged, acked
}

// add gives the call a packet id of its own and makes it pending; false when the
// connection has ended.
func (w *wire) add(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	for {
		w.lastID++
		if w.lastID != 0 && !w.inUse(w.lastID) {
			break
		}
	}
	c.packetID = w.lastID
	w.pending = append(w.pending, c)
	return true
}

func (w *wire) inUse(id uint16) bool {
	for _, p := range w.pending {
		if p.packetID == id {
			return true
		}
	}
	return false
}

// answerPacket ends the call with that packet id, unless it waits for the
// station's result and the packet only acknowledges it.
func (w *wire) answerPacket(id uint16, outcome site.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pending {
		if p.packetID == id && p.wantResult && outcome == site.Acknowledged {
			p.acked = true
			return
		}
	}
	if c := w.take(func(p *call) bool { return p.packetID == id }); c != nil {
		c.done <- outcome
	}
}

// answerCommand ends the call of that command. It gives whether one waits, and
// whether the lock is its own; of another's lock nothing is believed.
func (w *wire) answerCommand(id site.CommandID, lock site.LockID, outcome site.Outcome) (known, right bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.take(func(p *call) bool { return p.command == id && (lock == 0 || lock == p.lock) })
	if c != nil {
		c.done <- outcome
		return true, true
	}
	return slices.ContainsFunc(w.pending, func(p *call) bool { return p.command == id }), false
}

// take removes the first call that matches from pending; mu is held.
func (w *wire) take(match func(*call) bool) *call {
	for i, p := range w.pending {
		if match(p) {
			w.pending = append(w.pending[:i], w.pending[i+1:]...)
			return p
		}
	}
	return nil
}

// end answers every pending call: the connection is gone, and with it the
// acknowledgement. Whether the command arrived, the station may still tell.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	close(w.gone)
	for _, p := range w.pending {
		if p.acked {
			p.done <- site.Acknowledged
		} else {
			p.done <- site.Failed
		}
	}
	w.pending = nil
}
