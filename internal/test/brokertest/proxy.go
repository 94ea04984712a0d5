package brokertest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy passes TCP connections on to a broker, and does with them what networks do. Its
// methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	targets  []string
	running  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	next    int        // of targets
	refuse  bool
	closed  bool
	release chan struct{} // nil: everything passes; else closed when it does again
	open    map[*passage]struct{}
}

// passage is one connection through the proxy.
type passage struct {
	near net.Conn
	gone chan struct{} // closed by end

	mu     sync.Mutex // guards the fields below
	ended  bool
	far    net.Conn
	target string
}

// NewProxy runs a proxy before the target until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := ListenProxy("127.0.0.1:0", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ListenProxy runs a proxy until [Proxy.Close]. Of several targets each connection
// gets the next one that answers.
func ListenProxy(address string, targets ...string) (*Proxy, error) {
	l, err := net.Listen("tcp", address) //nolint:noctx // binds at once
	if err != nil {
		return nil, fmt.Errorf("listening before a broker: %w", err)
	}
	p := &Proxy{listener: l, targets: targets, open: make(map[*passage]struct{})}
	p.running.Go(p.accept)
	return p, nil
}

// Address is host:port of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// URL is the same as a gateway's configuration names it.
func (p *Proxy) URL() string { return "tcp://" + p.Address() }

// Connections counts those that pass at the moment.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Through counts those that pass to that target.
func (p *Proxy) Through(target string) (count int) {
	for _, c := range p.passages() {
		c.mu.Lock()
		if c.target == target {
			count++
		}
		c.mu.Unlock()
	}
	return count
}

func (p *Proxy) passages() []*passage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.open))
}

// Hold is a black hole: from now on nothing passes and nothing closes; who connects
// gets no answer.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release == nil {
		p.release = make(chan struct{})
	}
}

// Release ends Hold; what had waited passes.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release != nil {
		close(p.release)
		p.release = nil
	}
}

// Cut resets every connection, at both ends.
func (p *Proxy) Cut() {
	for _, c := range p.passages() {
		c.end(true)
	}
}

// Refuse sets whether new connections are reset.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Close ends everything.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Release()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.running.Go(func() { p.pass(conn) })
	}
}

// pass serves one connection to its end.
func (p *Proxy) pass(near net.Conn) {
	c := &passage{near: near, gone: make(chan struct{})}
	p.mu.Lock()
	refuse := p.refuse || p.closed
	if !refuse {
		p.open[c] = struct{}{}
	}
	p.mu.Unlock()
	defer c.end(true)
	if refuse {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
	}()
	if !p.wait(c) {
		return
	}
	far, target := p.dial()
	if far == nil || !c.reaches(far, target) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { p.pump(c, near, far) })
	p.pump(c, far, near)
	back.Wait()
}

// dial connects to the next target that answers; nil if none does.
func (p *Proxy) dial() (far net.Conn, target string) {
	p.mu.Lock()
	first := p.next
	p.next = (p.next + 1) % len(p.targets)
	p.mu.Unlock()
	for i := range p.targets {
		target := p.targets[(first+i)%len(p.targets)]
		conn, err := net.Dial("tcp", target) //nolint:noctx // a target on loopback answers or refuses
		if err == nil {
			return conn, target
		}
	}
	return nil, ""
}

// pump passes bytes on in one direction, and ends the passage when either side has.
func (p *Proxy) pump(c *passage, to, from net.Conn) {
	reset := false
	defer func() { c.end(reset) }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.wait(c) {
			return
		}
		_, failed := to.Write(buffer[:n])
		if err != nil || failed != nil {
			reset = failed != nil || !errors.Is(err, io.EOF)
			return
		}
	}
}

// wait returns when bytes may pass; false if the passage has ended first.
func (p *Proxy) wait(c *passage) bool {
	for {
		p.mu.Lock()
		release := p.release
		p.mu.Unlock()
		if release == nil {
			return true
		}
		select {
		case <-release:
		case <-c.gone:
			return false
		}
	}
}

// reaches returns the passage its far end; false if it has ended meanwhile.
func (c *passage) reaches(far net.Conn, target string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = far.Close()
		return false
	}
	c.far, c.target = far, target
	return true
}

// end closes both ends, or resets them.
func (c *passage) end(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.gone)
	for _, conn := range []net.Conn{c.near, c.far} {
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			continue // there is no far end yet
		}
		if reset {
			_ = tcp.SetLinger(0)
		}
		_ = tcp.Close()
	}
}
