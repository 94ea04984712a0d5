package stationlink

import (
	"errors"
	"sync"
	"time"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/site"
)

// wire is one live connection with the commands that wait on it.
type wire struct {
	link *Link
	conn Conn
	gone chan struct{} // closed when the connection has ended

	// local and cloud are the semaphores of which a call of that origin holds a token, until
	// its command is acknowledged: as many as the station takes at a time (MQTT 5, Receive
	// Maximum), and before it half as many of the cloud's, so that nothing local waits for
	// the cloud.
	local, cloud []chan struct{}

	// order is held while a report or a result of this connection is applied, so that none
	// is applied after another connection has taken its place.
	order    sync.Mutex
	replaced bool // order guards it

	mu      sync.Mutex // mu guards what follows
	ended   bool
	lastID  uint16
	calls   map[uint16]*call // by packet id: without an answer, or without an acknowledgement
	uptimes uptimes
	results bool // the station has stated that it answers each command by a result
}

func newWire(l *Link, c Conn) *wire {
	most := maxUnacked
	if n := c.ReceiveMaximum(); n > 0 {
		most = min(most, n)
	}
	whole, half := make(chan struct{}, most), make(chan struct{}, max(most/2, 1))
	return &wire{
		link: l, conn: c, gone: make(chan struct{}),
		local: []chan struct{}{whole}, cloud: []chan struct{}{half, whole},
		calls: make(map[uint16]*call), uptimes: uptimes{judge: judge{began: l.clock()}},
	}
}

// call is one command that waits for its answer.
type call struct {
	wire       *wire
	command    site.Command
	departure  unlock.Departure
	deadline   time.Duration // the command's, by the link's clock
	rest       time.Duration // what was left of it when the command left; zero until then
	packetID   uint16
	qos        byte
	tokens     []chan struct{} // to be released when it is acknowledged, or over at QoS 0
	wantResult bool
	acked      bool        // within the deadline
	answered   bool        // or given up
	done       chan answer // capacity 1; sent to once, by the goroutine that sets answered
}

// answer is how a call ends before its deadline.
type answer struct {
	outcome site.Outcome
	said    bool // the station has answered; else the connection has ended
}

// left returns what is left until the deadline of a call. It reads both clocks, because
// one of them stops while the machine sleeps.
func (w *wire) left(c *call) time.Duration {
	return min(time.Until(c.command.Deadline), c.deadline-w.link.clock())
}

// Call implements [unlock.Caller]. It blocks until the station answers or the command's
// deadline passes, whichever is first.
func (l *Link) Call(cmd site.Command, wantResult bool, d unlock.Departure) site.Outcome {
	w := l.wire(cmd.Station)
	if w == nil {
		return site.StationGone
	}
	timer := time.NewTimer(time.Until(cmd.Deadline))
	defer timer.Stop()
	own := w.local
	if cmd.Origin == site.Cloud || cmd.Origin == site.Integration {
		own = w.cloud
	}
	if outcome := w.acquire(own, timer); outcome != "" {
		w.resetOverdue()
		return outcome
	}
	c := &call{
		wire: w, command: cmd, departure: d, deadline: l.clock() + time.Until(cmd.Deadline),
		tokens: own, wantResult: wantResult, done: make(chan answer, 1),
	}
	return w.call(c, timer)
}

// Why a command must not be sent any more.
var (
	errMayNotLeave = errors.New("the right to it was lost while it waited")
	errNoTime      = errors.New("too little time is left for it")
)

// Payload implements [Message]: the last moment to keep a command back.
func (c *call) Payload(b []byte) ([]byte, time.Duration, error) {
	left := c.wire.left(c)
	ttl := wholeSeconds(left)
	if ttl <= 0 {
		return nil, 0, errNoTime
	}
	notAfter, known, patience := c.wire.depart(c, left)
	if !c.departure.MayLeave() {
		return nil, 0, errMayNotLeave
	}
	return appendCommand(b, c.command, ttl, notAfter, known), patience, nil
}

// call sends a command and waits for its answer.
func (w *wire) call(c *call, timer *time.Timer) site.Outcome {
	cmd := c.command
	var listening bool
	if c.qos, listening = w.conn.Subscribed(); !listening || !w.add(c) {
		release(c.tokens)
		return w.unreachable(c)
	}
	if err := w.conn.Send(c.packetID, c.qos, c, cmd.Deadline); err != nil {
		return w.unsent(c, cmd.Deadline, err)
	}
	c.departure.Left()
	timer.Reset(time.Until(cmd.Deadline) - c.reserve())
	select {
	case a := <-c.done:
		if !a.said && a.outcome != site.Acknowledged {
			return w.outlive(c, timer)
		}
		return w.conclude(c, a)
	case <-timer.C:
	}
	if w.hasOnlyAcknowledged(c) {
		a, _ := w.giveUp(c)
		return w.conclude(c, a)
	}
	timer.Reset(time.Until(cmd.Deadline))
	select {
	case a := <-c.done:
		if !a.said {
			return w.outlive(c, timer)
		}
		return w.conclude(c, a)
	case <-timer.C:
		return w.expire(c)
	}
}

// outlive waits for the end of a call whose connection has ended: until the deadline the
// command may still arrive and open the door, so that nobody is told before that it did not.
// The station may send its result over its next connection.
func (w *wire) outlive(c *call, timer *time.Timer) site.Outcome {
	id := c.command.ID
	w.link.setOrphan(id, c)
	defer w.link.setOrphan(id, nil)
	timer.Reset(time.Until(c.command.Deadline))
	select {
	case a := <-c.done:
		return w.conclude(c, a)
	case <-timer.C:
		return site.Expired
	}
}

// unreachable returns the outcome of a command for which the station does not listen.
func (w *wire) unreachable(c *call) site.Outcome {
	if _, listening := w.conn.Subscribed(); !listening && !w.conn.Ended() {
		c.departure.NotSubscribed()
	}
	return site.StationGone
}

// reserve is how long before the deadline a call stops to wait for the result of a
// command that the station has acknowledged: its answer, too, has to be in time.
func (c *call) reserve() time.Duration { return min(c.rest/10, 250*time.Millisecond) }

// hasOnlyAcknowledged reports whether the acknowledgement of a command is its answer, if no
// other comes: the station has stated no more.
func (w *wire) hasOnlyAcknowledged(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.acked && !w.results
}

// depart notes that a command is sent with that much time left. It returns the deadline
// in the station's own clock, if that is known, and the least time that any command in
// flight was sent with: counted from its own departure, none is then retransmitted past
// its deadline.
func (w *wire) depart(c *call, left time.Duration) (notAfter int64, known bool, patience time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.rest = left
	patience = left
	for _, other := range w.calls {
		if !other.answered && other.rest > 0 {
			patience = min(patience, other.rest)
		}
	}
	notAfter, known = w.uptimes.notAfter(c.deadline, w.link.clock())
	return notAfter, known, patience
}

// conclude returns the outcome of a call with an answer. An answer that the station
// sends, or the gateway reads, after the deadline is not for the client: it goes to
// [Followed].
func (w *wire) conclude(c *call, a answer) site.Outcome {
	if !a.said || w.left(c) > 0 {
		return a.outcome
	}
	w.link.followed(c.command.ID, c.command.Station, c.command.Lock, a.outcome)
	if w.hasOnlyAcknowledged(c) {
		return site.Acknowledged
	}
	return site.Expired
}

// unsent ends a call whose command was not sent. A connection that took no byte until the
// deadline is reset.
func (w *wire) unsent(c *call, deadline time.Time, err error) site.Outcome {
	_, _ = w.giveUp(c)
	w.answerPacket(c.packetID, site.Failed) // it owes no acknowledgement
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
		return w.unreachable(c)
	}
	return site.Failed
}

// expire ends a call whose deadline has passed. Unless the station has
// acknowledged it, the connection is reset.
func (w *wire) expire(c *call) site.Outcome {
	a, acked := w.giveUp(c)
	switch {
	case a.outcome != "":
		return w.conclude(c, a)
	case !acked:
		w.conn.Reset("command not acknowledged in time")
	}
	return site.Expired
}

// giveUp drops a call. It returns the answer that came first, the zero answer if none
// did, and whether the station has acknowledged the command.
func (w *wire) giveUp(c *call) (a answer, acked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(c)
	select {
	case a = <-c.done:
	default:
		if c.acked && !w.results {
			a.outcome = site.Acknowledged
		}
	}
	return a, c.acked
}

// add adds the call and assigns it a packet id that is not in use; false when the
// connection has ended.
func (w *wire) add(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	for used := true; used || w.lastID == 0; {
		w.lastID++
		_, used = w.calls[w.lastID]
	}
	c.packetID = w.lastID
	w.calls[c.packetID] = c
	return true
}

// answerPacket makes room for another command at QoS 1, and ends the call with that packet
// id, unless it waits for the station's result and the packet only acknowledges it: always
// for a station that answers by results, else in time. An acknowledgement of nothing that
// was sent changes nothing.
func (w *wire) answerPacket(id uint16, outcome site.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.calls[id]
	if c == nil || c.qos == 0 {
		return
	}
	c.free()
	waits := w.results || c.wantResult && w.left(c) > c.reserve()
	if !c.answered && outcome == site.Acknowledged && waits {
		c.acked = true
		return
	}
	w.answer(c, outcome)
}

// answerCommand ends the call of that command. It reports whether one waits, and whether
// the result may be its own.
func (w *wire) answerCommand(res result) (known, right bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.command.ID == res.id && !c.answered {
			right = c.isOf(res)
			if right {
				w.answer(c, res.outcome)
			}
			return true, right
		}
	}
	return false, false
}

// isOf reports whether a result may be that of the call. One that names another lock has not
// opened this one.
func (c *call) isOf(res result) bool {
	return res.outcome != site.Done || res.lock == 0 || res.lock == c.command.Lock
}

// setOrphan remembers a call whose connection has ended, or forgets it (nil).
func (l *Link) setOrphan(id site.CommandID, c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c == nil {
		delete(l.orphans, id)
	} else {
		l.orphans[id] = c
	}
}

// answerOrphan hands a result to a call whose connection has ended, and reports whether one
// waits that it may belong to.
func (l *Link) answerOrphan(id site.StationID, res result) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	c := l.orphans[res.id]
	if c == nil || c.command.Station != id || !c.isOf(res) {
		return false
	}
	select {
	case c.done <- answer{res.outcome, true}:
		return true
	default: // the call has its answer
		return false
	}
}

// answer ends a call, unless it has ended, and settles it; mu is held.
func (w *wire) answer(c *call, outcome site.Outcome) {
	if !c.answered {
		c.done <- answer{outcome, true}
	}
	w.settle(c)
}

// settle notes that a call waits for no answer, and drops it unless it holds a slot until
// it is acknowledged; mu is held.
func (w *wire) settle(c *call) {
	c.answered = true
	if c.qos == 0 {
		c.free()
	}
	if c.tokens == nil {
		delete(w.calls, c.packetID)
	}
}

// end answers every pending call: the connection is gone, and with it the
// acknowledgement. A command that arrived may still get a result.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	close(w.gone)
	for _, c := range w.calls {
		switch {
		case c.answered:
		case c.acked && !w.results:
			c.done <- answer{outcome: site.Acknowledged}
		default:
			c.done <- answer{outcome: site.Failed}
		}
	}
	w.calls = nil
}
