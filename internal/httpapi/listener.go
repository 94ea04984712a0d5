package httpapi

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"gatehouse/internal/metric"
)

const (
	// MaxConnections bounds the open connections of one listener where nothing else
	// is configured.
	MaxConnections = 1024
	// MaxConnectionsPerAddress likewise bounds those of one client address; an IPv6
	// client is its /64. The loopback address has no bound of its own, because a proxy
	// on the same machine stands for many clients.
	MaxConnectionsPerAddress = 256
)

// LimitListener bounds the open connections of inner, in all and per client address.
// At a bound, a new connection takes the place of the oldest one that has not sent a
// byte yet, so that a flood of silent connections keeps nobody out; where all have
// spoken, the new one is closed. Both are counted. So is an accept that fails, for
// example when memory or descriptors are used up; only a closed listener ends the
// server. On a plain listener it also turns what net/http answers to malformed requests
// into JSON (see the package doc).
func LimitListener(inner net.Listener, total, perAddress int, metrics *metric.Registry) *LimitedListener {
	return &LimitedListener{Listener: inner, most: total, mostFrom: perAddress, metrics: metrics, from: make(map[netip.Addr]int)}
}

// LimitedListener is what [LimitListener] gives. Safe for concurrent use.
type LimitedListener struct {
	net.Listener
	most, mostFrom int // in all, and from one address
	metrics        *metric.Registry

	mu     sync.Mutex // mu guards what follows
	total  int
	from   map[netip.Addr]int // open connections by address
	silent list.List          // of *limitConn, oldest first
}

// Accept implements [net.Listener].
func (l *LimitedListener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, l.failed(err)
		}
		c := &limitConn{Conn: inner, listener: l, addr: clientAddr(inner.RemoteAddr())}
		victim, admitted := l.admit(c)
		if victim != nil {
			_ = victim.Conn.Close()
		}
		if victim != nil || !admitted {
			l.metrics.Refused("http-connections")
		}
		if admitted {
			return c, nil
		}
		_ = inner.Close()
	}
}

// failed counts a failed accept and gives what net/http makes of it.
func (l *LimitedListener) failed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	l.metrics.Refused("http-accept")
	return passing{err}
}

// passing is an error that net/http's server does not end for: it logs it and accepts
// again, after 5 ms at first and twice that each time, up to a second. Of itself it does
// so for some of the errors that pass, but not for ENOBUFS or ENOMEM.
type passing struct{ error }

// Timeout implements [net.Error].
func (passing) Timeout() bool { return false }

// Temporary implements [net.Error].
func (passing) Temporary() bool { return true }

// Unwrap gives the cause.
func (p passing) Unwrap() error { return p.error }

// clientAddr gives the address under which a client is counted; not valid for
// clients without a bound of their own.
func clientAddr(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return netip.Addr{}
	case ip.Is6():
		prefix, _ := ip.Prefix(64)
		return prefix.Addr()
	default:
		return ip
	}
}

// admit counts c in; victim is the connection that has to go for it.
func (l *LimitedListener) admit(c *limitConn) (victim *limitConn, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.addr.IsValid() && l.from[c.addr] >= l.mostFrom:
		victim = l.oldestSilent(func(o *limitConn) bool { return o.addr == c.addr })
	case l.total >= l.most:
		victim = l.oldestSilent(func(*limitConn) bool { return true })
	default:
		l.count(c)
		return nil, true
	}
	if victim == nil {
		return nil, false
	}
	l.drop(victim)
	l.count(c)
	return victim, true
}

// oldestSilent finds a connection; the caller holds mu.
func (l *LimitedListener) oldestSilent(fits func(*limitConn) bool) *limitConn {
	for e := l.silent.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*limitConn); fits(c) {
			return c
		}
	}
	return nil
}

// count counts c in; the caller holds mu.
func (l *LimitedListener) count(c *limitConn) {
	l.total++
	if c.addr.IsValid() {
		l.from[c.addr]++
	}
	c.counted = true
	c.place = l.silent.PushBack(c)
}

// drop counts c out, once; the caller holds mu.
func (l *LimitedListener) drop(c *limitConn) {
	if !c.counted {
		return
	}
	c.counted = false
	l.total--
	if c.addr.IsValid() {
		if l.from[c.addr]--; l.from[c.addr] == 0 {
			delete(l.from, c.addr)
		}
	}
	l.hear(c)
}

// hear takes c from the silent ones; the caller holds mu.
func (l *LimitedListener) hear(c *limitConn) {
	if c.place != nil {
		l.silent.Remove(c.place)
		c.place = nil
	}
}

// limitConn is a counted connection.
type limitConn struct {
	net.Conn
	listener *LimitedListener
	addr     netip.Addr
	spoke    atomic.Bool

	counted bool          // guarded by listener.mu
	place   *list.Element // among the silent ones; guarded by listener.mu
}

// Read implements [net.Conn].
func (c *limitConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.spoke.Swap(true) {
		c.listener.mu.Lock()
		c.listener.hear(c)
		c.listener.mu.Unlock()
	}
	return n, err
}

// Write implements [net.Conn].
func (c *limitConn) Write(p []byte) (int, error) {
	answer, ok := jsonAnswer(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(answer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite lets net/http end a response whose request it does not read to the end
// without the client losing it to a reset.
func (c *limitConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [net.Conn].
func (c *limitConn) Close() error {
	c.listener.mu.Lock()
	c.listener.drop(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
