package admission

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Conn wraps raw for the server side of a TLS session. After the handshake call
// [Conn.Done], unless the next call on the connection is Read or Close.
func (h *Handshakes) Conn(raw net.Conn) *Conn {
	return &Conn{Conn: raw, gate: h}
}

// Conn is a connection whose TLS handshake waits for its turn.
type Conn struct {
	net.Conn
	gate     *Handshakes
	begun    bool        // the wait for a turn has begun; used by the reader alone
	turn     atomic.Bool // it has a turn
	answered atomic.Bool // the server has written to it during its turn
	waiter   waiter
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Queue has c wait for its turn without a goroutine, which spares the processor in a wave
// of connections. It returns false, and does nothing, if the client has sent nothing yet.
// Otherwise begin is called once, perhaps before Queue returns, and must not wait: with
// true when c has its turn, with false if its client has disconnected, or after
// [Conn.Withdraw].
func (c *Conn) Queue(begin func(turn bool)) bool {
	if !isReadable(c.Conn, false) {
		return false
	}
	c.begun = true
	c.gate.enter(c, begin)
	return true
}

// Withdraw ends the wait of c, if it waits, and has it wait no more.
func (c *Conn) Withdraw() {
	h := c.gate
	h.mu.Lock()
	c.waiter.withdrawn = true
	waits := c.waiter.waits
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

// await waits for the turn of c. It reports false if c is withdrawn first, or its client
// has disconnected.
func (c *Conn) await() bool {
	turn := make(chan bool, 1)
	c.gate.enter(c, func(has bool) { turn <- has })
	return <-turn
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
	c.Withdraw()
	c.Done()
	return c.Conn.Close()
}

// Done ends the turn of c, if it has one.
func (c *Conn) Done() {
	if c.turn.Swap(false) {
		c.gate.next()
	}
}

// isReadable reports whether there is something to read, and reads nothing; with wait it
// waits for that. It is false if that cannot be known or never happens; a Read then
// returns why.
func isReadable(conn net.Conn, wait bool) bool {
	handle := handleOf(conn)
	if handle == nil {
		return false
	}
	readable := false
	err := handle.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		readable = !errors.Is(err, unix.EAGAIN)
		return readable || !wait
	})
	return err == nil && readable
}

// handleOf returns the descriptor of a connection; nil if it has none.
func handleOf(conn net.Conn) syscall.RawConn {
	c, ok := layer[syscall.Conn](conn)
	if !ok {
		return nil
	}
	handle, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return handle
}

// layer returns what is a T of a connection, itself or a layer below, such as what TLS runs
// on.
func layer[T any](conn net.Conn) (found T, ok bool) {
	for {
		if found, ok = conn.(T); ok {
			return found, true
		}
		upper, wraps := conn.(interface{ NetConn() net.Conn })
		if !wraps {
			return found, false
		}
		conn = upper.NetConn()
	}
}
