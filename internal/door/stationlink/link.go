// Package stationlink speaks the language of the stations: their topics, their reports
// and results, and the commands to them. It turns MQTT into one blocking call,
// [Link.Call]; the asynchrony of acknowledgements lives here and nowhere else.
//
// Promise: a door never opens late (contract, section 2). A command goes only to the
// live connection of its station and only before its deadline; it is kept nowhere else;
// when the deadline passes unacknowledged the command is forgotten and the TCP
// connection is reset, so that bytes still in the kernel's send buffer die with it.
// Against queues behind that buffer a command carries its deadline in the station's own
// clock, where the station has reported its uptime. An answer that is read after the
// deadline is no success, even if the gateway itself was late.
package stationlink

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"gatehouse/internal/board/boottime"
	"gatehouse/internal/board/systemlog"
	"gatehouse/internal/door/station"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Conn is the live connection of one station; package broker's satisfies it. Its
// methods are safe for concurrent use.
type Conn interface {
	Station() site.StationID
	Generation() uint64
	// Number is greater for a connection that took over from another of its station.
	Number() site.ConnectionID
	Remote() string
	// Subscribed returns at which QoS (0 or 1) the station listens for commands; not ok
	// when it does not, or when the connection has ended.
	Subscribed() (qos byte, ok bool)
	// ReceiveMaximum is how many commands at QoS 1 the station takes before it has
	// acknowledged one of them; 0 when it has not said so.
	ReceiveMaximum() int
	// Send writes one command, as a PUBLISH with that packet id at that QoS, and returns
	// when it is in the kernel's hands. It waits for that to the deadline at most. An
	// error means that nothing was written, or that the connection has been reset.
	Send(packetID uint16, qos byte, m Message, deadline time.Time) error
	// Ended reports whether the connection has ended.
	Ended() bool
	// Reset ends the connection at once; nothing in its buffers is sent any more.
	Reset(reason string)
}

// Message is a command that a [Conn] is about to send.
type Message interface {
	// Payload is called once, directly before the write. It appends the payload to b and
	// returns how long at most the kernel may keep sending bytes that the station's kernel
	// does not acknowledge, or why the command must not be sent.
	Payload(b []byte) (payload []byte, patience time.Duration, err error)
}

// Presence receives connections and reports; package station satisfies it. Its
// methods are quick and safe for concurrent use.
type Presence interface {
	// Connected sets the connection of a station in place of the one before; an error
	// refuses it.
	Connected(id site.StationID, connection site.ConnectionID, generation uint64, remote string) error
	// Disconnected reports whether the end of that connection took the station offline;
	// the end of one that is not the station's present connection does nothing.
	Disconnected(id site.StationID, connection site.ConnectionID, reason string) (offline bool)
	Heard(id site.StationID)
	// State returns what is known of an enrolled station.
	State(id site.StationID) (state site.StationState, ok bool)
	// AnswersByResult reports whether a station answers each command by a result, by its latest
	// report.
	AnswersByResult(id site.StationID) bool
	// Report applies a report; an error says what in it could not be right.
	Report(id site.StationID, r *station.Report) error
	LockReported(id site.StationID, lock site.LockID, status site.LockStatus)
}

// Followed handles a station's answer to a command that no Call waits for any more, or
// that comes after its deadline; lock is 0 where the station names none. It reports
// whether that is a recent command of that station and lock. Package unlock satisfies
// it.
type Followed func(id site.CommandID, station site.StationID, lock site.LockID, outcome site.Outcome) bool

// maxUnacked bounds the commands that one station has not acknowledged; a further one waits,
// within its deadline, for a slot.
const maxUnacked = 16

// Link connects the broker with the rules. Its methods are safe for concurrent use.
type Link struct {
	presence Presence
	health   *health.Registry
	metrics  *metric.Registry
	log      *slog.Logger
	noise    *systemlog.Limiter // for errors of stations
	clock    func() time.Duration
	began    time.Duration

	followed Followed

	mu    sync.RWMutex             // mu guards what follows
	live  map[site.StationID]*wire // the one live connection of each station
	peers map[site.StationID]*peer // each station that ever connected

	reporting sync.Mutex // held while the condition of the clocks is raised or cleared, so that the last state stays
}

// New returns a link without connections. It drops late answers until Follow is called.
func New(presence Presence, conditions *health.Registry, metrics *metric.Registry, log *slog.Logger) *Link {
	return &Link{
		presence: presence, health: conditions, metrics: metrics, log: log,
		noise: systemlog.NewLimiter(log, time.Second, 10), clock: boottime.Now, began: boottime.Now(),
		live: make(map[site.StationID]*wire), peers: make(map[site.StationID]*peer),
		followed: func(site.CommandID, site.StationID, site.LockID, site.Outcome) bool { return false },
	}
}

// Follow sets the function that receives answers to commands that no Call waits for. To be
// called before the first connection.
func (l *Link) Follow(f Followed) { l.followed = f }

// errRevoked ends a connection whose secret changed while it was being made.
var errRevoked = errors.New("the station's secret is no longer valid")

// Connected takes over a station's new connection; an error refuses it.
func (l *Link) Connected(c Conn) error {
	w := newWire(l, c)
	l.mu.Lock()
	old := l.live[c.Station()]
	l.live[c.Station()] = w
	l.mu.Unlock()
	if old != nil {
		old.conn.Reset("taken over")
		old.replace()
		l.finish(old)
	}
	w.follow(l.heardOf(c.Station()), l.presence.AnswersByResult(c.Station()))
	if err := l.presence.Connected(c.Station(), c.Number(), c.Generation(), c.Remote()); err != nil {
		l.forget(c)
		return errors.Join(errRevoked, err)
	}
	l.peer(c.Station()).events.Info("station connected", "station", int64(c.Station()), "remote", c.Remote())
	return nil
}

// Disconnected is called when a connection has ended and no other has taken its place.
func (l *Link) Disconnected(c Conn, reason string) {
	l.forget(c)
	if l.presence.Disconnected(c.Station(), c.Number(), reason) {
		l.peer(c.Station()).events.Info("station disconnected", "station", int64(c.Station()), "reason", reason)
	}
}

// forget drops c if it is the present connection of its station.
func (l *Link) forget(c Conn) {
	l.mu.Lock()
	w := l.live[c.Station()]
	present := w != nil && w.conn == c
	if present {
		delete(l.live, c.Station())
	}
	l.mu.Unlock()
	if present {
		l.finish(w)
	}
}

// finish ends the calls of a connection, and with it the fault of a clock.
func (l *Link) finish(w *wire) {
	faulty := w.clockFault() != ""
	w.peer.end(w)
	if faulty {
		l.reportClocks()
	}
}

// heardOf returns what is known of a station that has been connected before the gateway's start;
// nil for one that never was. To be called before the presence hears of the new connection.
func (l *Link) heardOf(id site.StationID) *past {
	if state, _ := l.presence.State(id); state.LastConnection.IsZero() {
		return nil
	}
	return &past{ended: l.began}
}

// Stop ends every call at once with the outcome Unresolved. To be called when no station is
// connected, and none will be.
func (l *Link) Stop() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, p := range l.peers {
		p.stop()
	}
}

// Disconnect resets a station's live connection, because its secret was rotated
// or it was removed.
func (l *Link) Disconnect(id site.StationID) {
	if w := l.wire(id); w != nil {
		w.conn.Reset("revoked")
	}
}

// Subscribed reports whether a station is connected and subscribed to its commands.
func (l *Link) Subscribed(id site.StationID) bool {
	w := l.wire(id)
	if w == nil {
		return false
	}
	_, ok := w.conn.Subscribed()
	return ok
}

func (l *Link) wire(id site.StationID) *wire {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.live[id]
}

// present returns the wire of c, unless another connection has taken its place.
func (l *Link) present(c Conn) *wire {
	if w := l.wire(c.Station()); w != nil && w.conn == c {
		return w
	}
	return nil
}

// Heard notes a packet of a station.
func (l *Link) Heard(c Conn) {
	if l.present(c) != nil {
		l.presence.Heard(c.Station())
	}
}

// Received handles a message that a station has published to one of its [Topics]; again
// reports whether its library says that it has sent it before (DUP).
func (l *Link) Received(c Conn, topic string, payload []byte, again bool) {
	switch t := TopicsOf(c.Station()); topic {
	case t.report:
		if w := l.present(c); w != nil {
			w.apply(func() { l.report(w, payload, again) })
		}
	case t.result:
		l.result(c, payload, again)
	}
}

// report handles a report. An old one changes nothing. What is wrong with it is counted by
// the presence and never ends the connection.
func (l *Link) report(w *wire, payload []byte, again bool) {
	report, terms := ParseReport(payload)
	old, byResult, changed := w.hear(terms, again)
	if changed {
		l.reportClocks()
	}
	if old {
		return
	}
	report.ByResult = byResult
	if err := l.presence.Report(w.conn.Station(), report); err != nil {
		l.complain("report not understood", w.conn, err)
	}
}

// Acknowledged takes a PUBACK; reason is 0 for MQTT 3.1.1 and below 0x80 for yes.
func (l *Link) Acknowledged(c Conn, packetID uint16, reason byte) {
	w := l.present(c)
	if w == nil {
		return
	}
	outcome := site.Acknowledged
	if reason >= 0x80 {
		outcome = site.Refused
	}
	w.peer.acknowledge(packetID, outcome)
}

// result handles a station's result of a command; again is as for Received.
func (l *Link) result(c Conn, payload []byte, again bool) {
	res, err := parseResult(payload)
	if err != nil {
		l.metrics.Refused("result-invalid")
		l.complain("result not understood", c, err)
	}
	if res.id == "" {
		l.peer(c.Station()).failNamed(payload)
		return
	}
	known, right := l.peer(c.Station()).answerCommand(res)
	switch {
	case known && !right:
		l.complain("result not understood", c, errOtherLock)
		return
	case !known && !l.followed(res.id, c.Station(), res.lock, res.outcome):
		l.metrics.Refused("result-unknown-command")
		return
	}
	if w := l.present(c); w != nil && w.statesLock(res, again) {
		w.apply(func() { l.presence.LockReported(c.Station(), res.lock, res.status) })
	}
}

// errOtherLock means that a result is not of the command whose id it has.
var errOtherLock = errors.New("it names another lock than its command")

// complain logs at a bounded rate what a station got wrong.
func (l *Link) complain(message string, c Conn, err error) {
	l.noise.Warn(message, "station", int64(c.Station()), "error", err)
}

// A station's connections and their ends are logged at this rate: one that flaps,
// broken or hostile, fills no log. The journal has them at a bounded rate too.
const (
	eventsAtOnce = 10
	eventsEvery  = 10 * time.Second
)

// peer returns what is kept of a station over its connections.
func (l *Link) peer(id site.StationID) *peer {
	l.mu.RLock()
	p := l.peers[id]
	l.mu.RUnlock()
	if p != nil {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peers[id] == nil {
		l.peers[id] = l.newPeer()
	}
	return l.peers[id]
}
