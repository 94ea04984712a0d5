package admission

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Handshakes lets only as many TLS handshakes compute at once as the processor can. The
// others wait before their ClientHello is read, when they have cost next to nothing.
// The next turn goes to the address that was served longest ago (for IPv6, within the /64
// network that was served longest ago), and every second turn to an address that was never
// served, so that no address keeps others waiting. Of one address the newest handshake
// comes first: its client still waits for the answer, while the oldest is about to time
// out. A client that has disconnected is skipped. So a processor that is too slow for all
// spends its time on handshakes that complete.
//
// A turn lasts from the ClientHello until the server has answered it, or waits for the
// rest of it, so that no client can prolong it. Safe for concurrent use.
type Handshakes struct {
	timeout time.Duration

	mu      sync.Mutex // mu guards what follows
	free    int        // turns
	waiting *rota
	urgent  int           // calls of Yield that have not been followed by Resume
	since   time.Time     // the pause began; zero: there is none
	earlier time.Time     // no pause begins before
	over    *time.Timer   // ends the pause
	pace    Pace          // of the handshakes that follow each other
	resumed chan struct{} // closed when the pause ends
}

// pause is how long handshakes wait at most for what is urgent.
const pause = time.Second

// waiter is one handshake that waits for its turn.
type waiter struct {
	begin     func(turn bool) // called once, by what has removed the waiter from the rota
	withdrawn bool            // it waits no more

	conn             *Conn
	network, address *share
	arrived          uint64 // by the count of the rota
	waits            bool   // it is in the list of the rota
}

// start passes a turn to the waiter, or ends its wait without one.
func (w *waiter) start(turn bool) {
	if turn {
		w.conn.turn.Store(true)
		_ = w.conn.Conn.SetDeadline(time.Now().Add(w.conn.gate.timeout)) // fails only on a closed one
	}
	w.begin(turn)
}

// NewHandshakes returns a gate with that many turns; timeout bounds a handshake from
// its turn on. Fewer turns than 1 count as 1.
func NewHandshakes(turns int, timeout time.Duration) *Handshakes {
	return &Handshakes{timeout: timeout, free: max(1, turns), waiting: newRota()}
}

// Config returns base for listeners whose connections come from [Handshakes.Conn].
// Listeners that share the result share its session tickets.
func (h *Handshakes) Config(base *tls.Config) *tls.Config {
	gated := base.Clone()
	gated.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if c, ok := layer[*Conn](hello.Conn); ok && !c.turn.Load() && !c.await() {
			return nil, net.ErrClosed
		}
		return nil, nil //nolint:nilnil // as crypto/tls has it: the same configuration
	}
	return gated
}

// enter adds c to those that wait, or passes a free turn to it.
func (h *Handshakes) enter(c *Conn, begin func(turn bool)) {
	w := &c.waiter
	h.mu.Lock()
	w.conn, w.begin = c, begin
	withdrawn, free := w.withdrawn, h.free > 0 && h.since.IsZero() // no other waits
	if !withdrawn {
		h.waiting.push(w, Address(c.RemoteAddr()))
		if free {
			h.free--
			h.waiting.remove(w, true)
			h.pace.Rested()
		}
	}
	h.mu.Unlock()
	if withdrawn || free {
		w.start(!withdrawn)
	}
}

// next passes a turn on to the first handshake whose client is still there; the
// connections of clients that have gone end.
func (h *Handshakes) next() {
	for {
		w, there := h.first()
		if w == nil {
			return
		}
		w.start(there)
		if there {
			return
		}
	}
}

// first removes the first waiter, and reports whether its client is still there. If
// there is none, it frees the turn; if the turn has to rest, it passes it on later.
func (h *Handshakes) first() (w *waiter, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w = h.waiting.first(); w == nil || !h.since.IsZero() {
		h.free++
		return nil, false
	}
	if h.pace.Due() {
		h.pace.Rested()
		time.AfterFunc(Breath, h.next)
		return nil, false
	}
	there = !HungUp(w.conn.Conn) // which the kernel answers at once
	h.waiting.remove(w, there)
	return w, there
}

// Yield holds handshakes back until Resume, because something urgent is in flight: a
// door is being opened. The pause lasts a second at most, and no other begins for
// as long as it lasted, so that no sequence of doors stops the handshakes. Yield
// reports whether it did anything; only then Resume must follow. If nothing waits for a
// turn, it costs next to nothing. It may be called on nil.
func (h *Handshakes) Yield() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting.waiting) == 0 {
		return false
	}
	h.urgent++
	now := time.Now()
	if h.since.IsZero() && now.After(h.earlier) {
		h.since, h.resumed = now, make(chan struct{})
		h.over = time.AfterFunc(pause, h.proceed)
	}
	return true
}

// Resume undoes one Yield.
func (h *Handshakes) Resume() {
	h.mu.Lock()
	h.urgent--
	last := h.urgent == 0
	h.mu.Unlock()
	if last {
		h.proceed()
	}
}

// proceed ends the pause, and passes on the turns that were released in it.
func (h *Handshakes) proceed() {
	h.mu.Lock()
	free := 0
	if !h.since.IsZero() {
		h.over.Stop()
		close(h.resumed)
		now := time.Now()
		h.earlier, h.since = now.Add(now.Sub(h.since)), time.Time{}
		h.pace.Rested()
		free, h.free = h.free, 0
	}
	h.mu.Unlock()
	for range free {
		h.next()
	}
}

// Rest waits until no pause is in progress, or done is closed. A listener whose
// newcomers need handshakes calls it before it serves one: in a wave they come by the
// thousand.
func (h *Handshakes) Rest(done <-chan struct{}) {
	h.mu.Lock()
	paused, resumed := !h.since.IsZero(), h.resumed
	h.mu.Unlock()
	if !paused {
		return
	}
	select {
	case <-resumed:
	case <-done:
	}
}

// Waiting returns how many handshakes wait for their turn.
func (h *Handshakes) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting.waiting)
}
