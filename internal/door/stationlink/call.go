package stationlink

import (
	"errors"
	"time"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/site"
)

// call is one command that waits for its answer.
type call struct {
	wire       *wire // the connection that it is sent on; its answer may come over a later one
	command    site.Command
	departure  unlock.Departure
	deadline   time.Duration // the command's, by the link's clock
	qos        byte
	wantResult bool
	done       chan struct{} // closed when an outcome is set

	// The mu of the peer guards what follows.
	packetID uint16
	rest     time.Duration   // what was left of the time when the command left; zero until then
	tokens   []chan struct{} // to be released when it is acknowledged, or over at QoS 0
	acked    bool            // within the deadline
	promised bool            // acknowledged by a station that answers by results
	answered bool            // or given up
	outcome  site.Outcome    // the answer; "" without one
}

// left returns what is left until the deadline of a call. It reads both clocks, because
// one of them stops while the machine sleeps.
func (c *call) left() time.Duration {
	return min(time.Until(c.command.Deadline), c.deadline-c.wire.link.clock())
}

// Call implements [unlock.Caller]. It blocks until the station answers or the command's
// deadline passes, whichever is first, or until Stop.
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
		tokens: own, wantResult: wantResult, done: make(chan struct{}),
	}
	if outcome := c.send(); outcome != "" {
		return outcome
	}
	c.wait(timer)
	return c.conclude()
}

// Why a command must not be sent any more.
var (
	errMayNotLeave = errors.New("the right to it was lost while it waited")
	errNoTime      = errors.New("too little time is left for it")
)

// Payload implements [Message]: the last moment to keep a command back.
func (c *call) Payload(b []byte) ([]byte, time.Duration, error) {
	left := c.left()
	ttl := wholeSeconds(left)
	if ttl <= 0 {
		return nil, 0, errNoTime
	}
	notAfter, known, patience := c.wire.peer.depart(c, left)
	if !c.departure.MayLeave() {
		return nil, 0, errMayNotLeave
	}
	return appendCommand(b, c.command, ttl, notAfter, known), patience, nil
}

// send sends the command. It returns the outcome of a command that has not left, else "".
func (c *call) send() site.Outcome {
	conn := c.wire.conn
	var listening bool
	if c.qos, listening = conn.Subscribed(); !listening || !c.wire.peer.add(c) {
		release(c.tokens)
		return c.unreachable()
	}
	if err := conn.Send(c.packetID, c.qos, c, c.command.Deadline); err != nil {
		return c.unsent(err)
	}
	c.departure.Left()
	return ""
}

// unreachable returns the outcome of a command for which the station does not listen.
func (c *call) unreachable() site.Outcome {
	if _, listening := c.wire.conn.Subscribed(); !listening && !c.wire.conn.Ended() {
		c.departure.NotSubscribed()
	}
	return site.StationGone
}

// unsent ends a call whose command was not sent. A connection that took no byte until the
// deadline is reset.
func (c *call) unsent(err error) site.Outcome {
	c.wire.peer.withdraw(c)
	_, listening := c.wire.conn.Subscribed()
	switch {
	case errors.Is(err, errMayNotLeave):
		return site.Refused
	case errors.Is(err, errNoTime):
		return site.Expired
	case time.Until(c.command.Deadline) <= 0:
		c.wire.conn.Reset("command not taken in time")
		return site.Expired
	case !listening:
		return c.unreachable()
	}
	return site.Failed
}

// wait returns when the call has its answer, or none can come in time. The end of the
// connection ends no call: the command may still arrive and open the door, and the answer
// may come over the next connection.
func (c *call) wait(timer *time.Timer) {
	gone := c.wire.gone
	for {
		left := time.Until(c.command.Deadline)
		switch reserve := c.reserve(); {
		case left > reserve:
			left -= reserve
		case left <= 0 || c.wire.peer.hasOnlyAcknowledged(c):
			return
		}
		timer.Reset(left)
		select {
		case <-c.done:
			return
		case <-gone:
			c.departure.Lost()
			gone = nil
		case <-timer.C:
		}
	}
}

// reserve is how long before the deadline a call stops to wait for the result of a
// command that the station has acknowledged: its answer, too, has to be in time.
func (c *call) reserve() time.Duration { return min(c.rest/10, 250*time.Millisecond) }

// conclude ends a call and returns its outcome. An answer that the station sends, or the
// gateway reads, after the deadline is not for the client: it goes to [Followed]. The
// connection of a command that was not acknowledged in time is reset.
func (c *call) conclude() site.Outcome {
	late := c.left() <= 0
	outcome, acknowledged, owes := c.wire.peer.finish(c)
	switch {
	case outcome != "" && !late, outcome == site.Unresolved:
		return outcome
	case outcome != "":
		c.wire.link.followed(c.command.ID, c.command.Station, c.command.Lock, outcome)
	case owes:
		c.wire.conn.Reset("command not acknowledged in time")
	}
	if acknowledged {
		return site.Acknowledged
	}
	return site.Expired
}

// outcomeOf returns the outcome that a result of the command states: one that names another
// lock has not opened this one.
func (c *call) outcomeOf(res result) site.Outcome {
	if res.outcome == site.Done && res.lock != 0 && res.lock != c.command.Lock {
		return site.Failed
	}
	return res.outcome
}
