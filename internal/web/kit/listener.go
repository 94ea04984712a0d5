package kit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"gatehouse/internal/limit"
)

// Accept implements [net.Listener]. The pool bounds the connections: a newcomer to a full
// one evicts a connection that is not working. What is evicted or refused is counted. So
// is an accept that fails, for example when memory or descriptors are used up; only a
// closed listener ends the server.
func (s *Service) Accept() (net.Conn, error) {
	for {
		inner, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil {
			s.kit.metrics.Refused("http-accept")
			return nil, passing{err}
		}
		c := &Conn{Conn: inner, kit: s.kit, address: limit.Address(inner.RemoteAddr()), accepted: time.Now()}
		c.in, _ = inner.(*receiver)
		if s.secure != nil && s.kit.handshakes != nil {
			c.Conn = s.kit.handshakes.Conn(inner)
		}
		if s.pool.Enter(&c.slot, c.address, c) == nil {
			return c, nil
		}
		s.kit.metrics.Refused("http-connections")
		_ = inner.Close()
	}
}

// passing is an error that does not end net/http's server: it logs the error and accepts
// again, after 5 ms at first and twice as long each time, up to a second. By itself it does
// so for some transient errors, but not for ENOBUFS or ENOMEM.
type passing struct{ error }

// Timeout implements [net.Error].
func (passing) Timeout() bool { return false }

// Temporary implements [net.Error].
func (passing) Temporary() bool { return true }

// Unwrap returns the cause.
func (p passing) Unwrap() error { return p.error }

// Conn is a connection of a [Service], with a slot in its pool.
type Conn struct {
	net.Conn
	kit     *Kit
	address netip.Addr
	slot    limit.Slot
	writing sync.Mutex // held while something is written

	in       *receiver // below TLS and its handshake; nil where the request came on no connection of ours
	accepted time.Time
}

// Read implements [net.Conn]. It waits while something is written: a client that does not
// receive the answers to what it sent, such as HTTP/2 pings, cannot have more of them queue.
// Before more is read, it is everyone else's turn: a client that never stops sending keeps
// two goroutines of HTTP/2 busy for 10 ms at a time, and a door waits for many such turns.
func (c *Conn) Read(p []byte) (int, error) {
	c.writing.Lock()
	c.writing.Unlock() //nolint:gocritic,staticcheck // it only waits
	runtime.Gosched()
	return c.Conn.Read(p)
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.Conn.Write(p)
}

// connKey is the key of the [Conn] in the context of a request.
type connKey struct{}

// withConn is a ConnContext of net/http: requests find their connection with it, or the
// receipts of one that is not of a [Service].
func withConn(ctx context.Context, c net.Conn) context.Context {
	l := connOf(c)
	if l == nil {
		l = &Conn{in: receiverOf(c)}
	}
	return context.WithValue(ctx, connKey{}, l)
}

// connOf returns the Conn that a connection of net/http is or wraps; nil if
// there is none.
func connOf(c net.Conn) *Conn {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	l, _ := c.(*Conn)
	return l
}

// Evict implements [limit.Holder].
func (c *Conn) Evict() {
	c.kit.metrics.Refused("http-connections")
	_ = c.Close()
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite lets net/http end a response whose request it does not read to the end
// without the client losing it to a reset. A TLS session has its own.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.slot.Leave()
	return c.Conn.Close()
}
