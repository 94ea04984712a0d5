package admission

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/limit"
)

// Conn is a connection whose TLS handshake waits for its turn.
type Conn struct {
	net.Conn
	gate     *Handshakes
	begun    bool        // the wait for a turn has begun; used by the reader alone
	turn     atomic.Bool // it has a turn
	answered atomic.Bool // the server has written to it during its turn

	mu     sync.Mutex                // mu guards what follows
	waiter *limit.Waiter[netip.Addr] // nil: it has not waited
	closed bool
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Withdraw ends the wait of c, if it waits, and has it wait no more.
func (c *Conn) Withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.waiter != nil {
		c.waiter.Cancel(net.ErrClosed)
	}
}

// Await waits until the client has sent something and it is the turn of c. The first
// Read does so too, but a TLS session holds more memory by then.
func (c *Conn) Await() error {
	if c.begun {
		return nil
	}
	c.begun = true
	if isReadable(c.Conn, true) {
		return c.await()
	}
	return nil
}

// await waits for the turn of c. It fails if c is withdrawn first, or its client has
// disconnected.
func (c *Conn) await() error {
	w, err := c.join()
	if err != nil {
		return err
	}
	waited := !w.Answered()
	if err := w.Wait(); err != nil {
		return err
	}
	c.turn.Store(true)
	if waited && HungUp(c.Conn) { // which the kernel answers at once
		c.Done()
		return net.ErrClosed
	}
	err = c.Conn.SetDeadline(time.Now().Add(c.gate.timeout))
	if err != nil { // it was closed meanwhile
		c.Done()
	}
	return err
}

// join has c wait, unless it is withdrawn.
func (c *Conn) join() (*limit.Waiter[netip.Addr], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	address := limit.Address(c.RemoteAddr())
	w, err := c.gate.Join(limit.Network(address), address)
	c.waiter = w
	return w, err
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
		c.gate.Leave()
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
