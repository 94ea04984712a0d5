package admission

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Handshakes lets only as many TLS handshakes compute at once as the processor can. The
// others wait before their ClientHello is read, when they have cost next to nothing.
// The next turn goes to the address that was served longest ago (for IPv6, within the /64
// network that was), and every second turn to an address that was never served, so that no
// address keeps others waiting; and there to the newest
// handshake: its client still waits for the answer, while the oldest is about to time
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
	rested  time.Time     // when no handshake computed last
	resumed chan struct{} // closed when the pause ends
}

// pause is how long handshakes wait at most for what is urgent.
const pause = time.Second

// waiter is one handshake that waits for its turn.
type waiter struct {
	share share
	conn  *Conn
	begin func(turn bool) // called once, by what has removed the waiter from the rota
}

// NewHandshakes returns a gate with that many turns; timeout bounds a handshake from
// its turn on. Fewer turns than 1 count as 1.
func NewHandshakes(turns int, timeout time.Duration) *Handshakes {
	return &Handshakes{timeout: timeout, free: max(1, turns), waiting: newRota()}
}

// Config returns base for listeners whose connections are made by [Handshakes.Conn].
// Listeners that share the result share its session tickets.
func (h *Handshakes) Config(base *tls.Config) *tls.Config {
	gated, inner := base.Clone(), base.GetConfigForClient
	gated.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if c := connOf(hello.Conn); c != nil && !c.turn.Load() && !c.await() {
			return nil, net.ErrClosed
		}
		if inner != nil {
			return inner(hello)
		}
		return nil, nil //nolint:nilnil // as crypto/tls has it: the same configuration
	}
	return gated
}

// connOf returns the Conn that a TLS session runs on, directly or below other layers.
func connOf(raw net.Conn) *Conn {
	for {
		switch c := raw.(type) {
		case *Conn:
			return c
		case interface{ NetConn() net.Conn }:
			raw = c.NetConn()
		default:
			return nil
		}
	}
}

// Conn wraps raw for the server side of a TLS session; ended is closed when the
// connection ends. After the handshake call [Conn.Done], unless the next call on the
// connection is Read or Close.
func (h *Handshakes) Conn(raw net.Conn, ended <-chan struct{}) *Conn {
	c := &Conn{Conn: raw, gate: h, ended: ended}
	c.waiter.conn = c
	c.waiter.share.place = -1
	return c
}

// Conn is a connection whose TLS handshake waits for its turn.
type Conn struct {
	net.Conn
	gate     *Handshakes
	ended    <-chan struct{}
	begun    bool        // the ClientHello has; the reader's own
	turn     atomic.Bool // has one
	answered atomic.Bool // has been written to in its turn
	waiter   waiter
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Queue has c wait for its turn without a goroutine, which spares the processor in a wave
// of connections. It returns false, and does nothing, if the client has sent nothing yet.
// Otherwise begin is called once, perhaps before Queue returns, and must not wait: with
// true when c has its turn, with false if its client has disconnected, if the connection
// has ended or after [Conn.Withdraw].
func (c *Conn) Queue(begin func(turn bool)) bool {
	if !isReadable(c.Conn, false) {
		return false
	}
	c.begun = true
	c.gate.enter(c, func(turn bool) {
		if turn {
			c.take()
		}
		begin(turn)
	})
	select {
	case <-c.ended: // perhaps before it waited
		c.Withdraw()
	default:
	}
	return true
}

// Withdraw ends the wait of c, if it waits.
func (c *Conn) Withdraw() {
	h := c.gate
	h.mu.Lock()
	waits := c.waiter.share.place >= 0
	if waits {
		h.waiting.remove(&c.waiter, false)
	}
	h.mu.Unlock()
	if waits {
		c.waiter.begin(false)
	}
}

// Await waits until the client has sent something and it is the turn of c. The first
// Read does so too, but a TLS session holds more memory by then.
func (c *Conn) Await() error {
	if c.begun {
		return nil
	}
	c.begun = true
	if isReadable(c.Conn, true) && !c.await() {
		return net.ErrClosed
	}
	return nil
}

// Read implements [net.Conn]. It ends the turn if the server has answered, or has to
// wait for the client. (A ClientHello that comes in pieces gets another turn when it is
// whole, see [Handshakes.Config].)
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.Await(); err != nil {
		return 0, err
	}
	if c.turn.Load() && (c.answered.Load() || !isReadable(c.Conn, false)) {
		c.Done()
	}
	return c.Conn.Read(p)
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	if c.turn.Load() {
		c.answered.Store(true)
	}
	return c.Conn.Write(p)
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.Done()
	return c.Conn.Close()
}

// Done ends the turn of c, if it has one.
func (c *Conn) Done() {
	if c.turn.Load() && c.turn.Swap(false) {
		c.gate.next()
	}
}

// await waits for the turn of c. It reports false if c ends first, or its client has
// disconnected.
func (c *Conn) await() bool {
	turn := make(chan bool, 1)
	c.gate.enter(c, func(has bool) { turn <- has })
	select {
	case has := <-turn:
		if has {
			c.take()
		}
		return has
	case <-c.ended:
	}
	c.Withdraw()
	if <-turn { // it has come meanwhile
		c.gate.next()
	}
	return false
}

// take begins the turn that c has.
func (c *Conn) take() {
	c.turn.Store(true)
	_ = c.Conn.SetDeadline(time.Now().Add(c.gate.timeout)) // fails only on a closed one
}

// enter adds c to those that wait, or passes a free turn to it.
func (h *Handshakes) enter(c *Conn, begin func(turn bool)) {
	w := &c.waiter
	w.begin = begin
	h.mu.Lock()
	h.waiting.push(w, Address(c.RemoteAddr()))
	free := h.free > 0 && h.since.IsZero() // nobody else waits
	if free {
		h.free--
		h.waiting.remove(w, true)
		h.rested = time.Now()
	}
	h.mu.Unlock()
	if free {
		begin(true)
	}
}

const (
	// shift is for how long handshakes follow each other without a rest, and breath how long
	// the rest is. In it the scheduler of the runtime looks for other work, for requests that
	// have come: a row of handshakes would keep it from that for seconds on a slow processor.
	shift  = 100 * time.Millisecond
	breath = 200 * time.Microsecond
)

// next passes a turn on to the first handshake whose client is still there; the
// connections of clients that have gone end.
func (h *Handshakes) next() {
	for {
		w, there := h.first()
		if w == nil {
			return
		}
		w.begin(there)
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
	if time.Since(h.rested) > shift {
		time.AfterFunc(breath, h.rise)
		return nil, false
	}
	there = !gone(w.conn.Conn) // which the kernel answers at once
	h.waiting.remove(w, there)
	return w, there
}

// rise passes on a turn that has rested.
func (h *Handshakes) rise() {
	h.mu.Lock()
	h.rested = time.Now()
	h.mu.Unlock()
	h.next()
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
	if h.waiting.count == 0 {
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
		h.rested = now
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
	return h.waiting.count
}

// isReadable reports whether there is something to read, and reads nothing; with wait it
// waits for that. It is false if that cannot be known or never happens; a Read then
// returns why.
func isReadable(raw net.Conn, wait bool) bool {
	socket, ok := raw.(syscall.Conn)
	if !ok {
		return false
	}
	handle, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	readable := false
	err = handle.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		readable = !errors.Is(err, unix.EAGAIN)
		return readable || !wait
	})
	return err == nil && readable
}

// gone reports whether the client has closed or reset the connection, even if there are
// bytes before that which were not read yet (poll(2), POLLRDHUP).
func gone(raw net.Conn) bool {
	socket, ok := raw.(syscall.Conn)
	if !ok {
		return false
	}
	handle, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	over := false
	err = handle.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor
		n, err := unix.Poll(poll, 0)
		over = err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return over || err != nil
}
