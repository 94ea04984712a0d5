package stationlink

import (
	"cmp"
	"sync"

	"gatehouse/internal/site"
)

// wire is one live connection.
type wire struct {
	link *Link
	peer *peer
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

	// The mu of the peer guards what follows.
	ended   bool
	uptimes uptimes
	sent    map[site.LockID]site.CommandID // the last command to each lock; "" after its first result
}

func newWire(l *Link, c Conn) *wire {
	most := maxUnacked
	if n := c.ReceiveMaximum(); n > 0 {
		most = min(most, n)
	}
	whole, half := make(chan struct{}, most), make(chan struct{}, max(most/2, 1))
	return &wire{
		link: l, peer: l.peer(c.Station()), conn: c, gone: make(chan struct{}),
		local: []chan struct{}{whole}, cloud: []chan struct{}{half, whole},
		uptimes: uptimes{judge: judge{began: l.clock()}}, sent: make(map[site.LockID]site.CommandID),
	}
}

// hear takes over what a report states of its connection, and reports whether the report is
// old, whether the station answers by results, and whether the fault of its clock has changed.
func (w *wire) hear(terms Terms, again bool) (old, byResult, changed bool) {
	w.peer.mu.Lock()
	defer w.peer.mu.Unlock()
	u := &w.uptimes
	before, first := u.judge.fault, !u.original
	old = u.add(terms.Uptime, again, w.link.clock())
	if first && u.original { // what the connection before has stated counts no longer
		w.peer.results = false
	}
	w.peer.results = w.peer.results || terms.Results && !old
	return old, w.peer.results, u.judge.fault != before
}

// statesLock reports whether a result states how its lock is now: over the connection of the last
// command to that lock, the first one of that command; over a later one, any before the first
// report, unless a library has kept it. Any other may be older than a report.
func (w *wire) statesLock(res result, again bool) bool {
	w.peer.mu.Lock()
	defer w.peer.mu.Unlock()
	last, here := w.sent[res.lock]
	if !here {
		return !w.uptimes.original && !again
	}
	if last != res.id {
		return false
	}
	w.sent[res.lock] = ""
	return true
}

// follow takes over what is known of the connection before; heard is that where nothing was
// stated in this run of the gateway. The station answered by results there, or not.
func (w *wire) follow(heard *past, byResult bool) {
	w.peer.mu.Lock()
	defer w.peer.mu.Unlock()
	w.uptimes.before, w.uptimes.drift = cmp.Or(w.peer.before, heard), w.peer.drift
	w.peer.results = byResult
}

// clockFault returns what is wrong with the clock of a station; "" on a connection that has
// ended.
func (w *wire) clockFault() ClockFault {
	w.peer.mu.Lock()
	defer w.peer.mu.Unlock()
	if w.ended {
		return ""
	}
	return w.uptimes.judge.fault
}

// apply calls f, unless another connection has taken the place of this one.
func (w *wire) apply(f func()) {
	w.order.Lock()
	defer w.order.Unlock()
	if !w.replaced {
		f()
	}
}

// replace notes that another connection takes the place of this one.
func (w *wire) replace() {
	w.order.Lock()
	defer w.order.Unlock()
	w.replaced = true
}
