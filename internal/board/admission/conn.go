package admission

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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
	c.waiter.conn, c.waiter.place = c, -1
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
	waits := c.waiter.place >= 0
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

// HungUp reports whether the client has closed or reset a connection, even if there are
// bytes before that which were not read yet (poll(2), POLLRDHUP). It looks below layers
// such as TLS. False if that cannot be known.
func HungUp(conn net.Conn) bool {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	handle, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	over := false
	err = handle.Control(func(fd uintptr) {
		poll := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor is small
		n, err := unix.Poll(poll[:], 0)
		over = err == nil && n > 0 // the kernel adds POLLHUP and POLLERR by itself
	})
	return over || err != nil
}
