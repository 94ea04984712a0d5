package kit_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/web/kit"
)

// queue is a listener whose connections the test makes.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) {
	c, ok := <-q
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (q queue) Close() error { close(q); return nil }

func (q queue) Addr() net.Addr { return &net.TCPAddr{} }

// stub is a connection from an address; it reads what the test has put in.
type stub struct {
	net.Conn
	from   net.Addr
	in     *strings.Reader
	out    bytes.Buffer
	closed bool
}

func (s *stub) RemoteAddr() net.Addr { return s.from }

func (s *stub) Read(p []byte) (int, error) { return s.in.Read(p) }

func (s *stub) Write(p []byte) (int, error) {
	if s.closed {
		return 0, net.ErrClosed
	}
	return s.out.Write(p)
}

func (s *stub) Close() error { s.closed = true; return nil }

// gate is a limited listener over stubs.
type gate struct {
	t       *testing.T
	queue   queue
	limited net.Listener
	metrics *metric.Registry
}

func newGate(t *testing.T, limits limit.Limits) *gate {
	g := &gate{t: t, queue: make(queue, 1), metrics: metric.New()}
	k := kit.New(kit.Config{Metrics: g.metrics, Logger: slog.New(slog.DiscardHandler)})
	g.limited = k.NewService(nil, g.queue, limit.NewPool(limits), nil)
	return g
}

// knock has a connection come in that is admitted.
func (g *gate) knock(from string) (*stub, net.Conn) {
	g.t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		g.t.Fatal(err)
	}
	s := &stub{from: addr, in: strings.NewReader("GET / HTTP/1.1\r\n")}
	g.queue <- s
	conn, err := g.limited.Accept()
	if err != nil {
		g.t.Fatal(err)
	}
	if conn.RemoteAddr() != s.from {
		g.t.Fatalf("%s was not admitted", from)
	}
	return s, conn
}

func (g *gate) refused() uint64 {
	return g.metrics.Counter(`gatehouse_refusals_total{reason="http-connections"}`).Get()
}

// A newcomer evicts, a closed connection makes room, once.
func TestService_Accept(t *testing.T) {
	g := newGate(t, limit.Limits{Total: 3, PerAddress: 2})
	first, _ := g.knock("192.0.2.1:1")
	second, conn := g.knock("192.0.2.1:2")
	third, _ := g.knock("192.0.2.1:3") // beyond the bound of its address
	if !first.closed || second.closed || g.refused() != 1 {
		t.Errorf("closed: first %t, second %t; %d counted", first.closed, second.closed, g.refused())
	}
	other, _ := g.knock("[2001:db8::1]:1")
	last, _ := g.knock("[2001:db8:1::2]:1") // beyond the bound of all
	if !second.closed || third.closed || other.closed || g.refused() != 2 {
		t.Errorf("closed: second %t, third %t, other %t; %d counted", second.closed, third.closed, other.closed, g.refused())
	}
	_ = conn.Close() // it has no slot any more
	g.knock("[2001:db8:2::3]:1")
	if !third.closed || other.closed || last.closed { // of equals, the oldest
		t.Errorf("closed: third %t, other %t, last %t", third.closed, other.closed, last.closed)
	}
}

// lame is a queue whose next accepts fail, and that the test closes itself.
type lame struct {
	queue
	failures []error
}

func (*lame) Close() error { return nil }

func (l *lame) Accept() (net.Conn, error) {
	if len(l.failures) == 0 {
		return l.queue.Accept()
	}
	err := l.failures[0]
	l.failures = l.failures[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// A server goes on after accepts that fail, less and less often, and ends when its
// listener is closed.
func TestService_Accept_acceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lame{make(queue), []error{
			syscall.ENOBUFS, syscall.ENOMEM, syscall.EMFILE, syscall.EPERM, syscall.EPROTO, syscall.ECONNABORTED,
			syscall.ENOBUFS, syscall.ENOBUFS, syscall.ENOBUFS, syscall.ENOBUFS,
		}}
		metrics, logs := metric.New(), &bytes.Buffer{}
		k := kit.New(kit.Config{Metrics: metrics, Logger: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		service := k.NewService(nil, l, limit.NewPool(limit.Limits{Total: 1}), nil)
		served, begun := make(chan error, 1), time.Now()
		go func() { served <- service.Serve() }()
		near, far := net.Pipe()
		select {
		case l.queue <- far: // when it is accepted again
		case err := <-served:
			t.Fatalf("serving ended: %v", err)
		}
		// 5, 10, 20, … 640 ms and then 1 s each.
		if got, want := time.Since(begun), 1275*time.Millisecond+2*time.Second; got != want {
			t.Errorf("accepted again after %v, want %v", got, want)
		}
		if n := metrics.Counter(`gatehouse_refusals_total{reason="http-accept"}`).Get(); n != 10 {
			t.Errorf("%d were counted", n)
		}
		if text := logs.String(); !strings.Contains(text, syscall.ENOBUFS.Error()) {
			t.Errorf("logged %s", text)
		}
		_ = near.Close()
		close(l.queue)
		if err := <-served; err != nil {
			t.Errorf("serving ended: %v", err)
		}
		_ = service.Server.Close()
	})
}

// writing is a connection whose only Write lasts for a while, or until it is read from.
type writing struct {
	stub
	begun       chan struct{} // closed when the Write has begun
	ended, read atomic.Bool
}

func (w *writing) Write(p []byte) (int, error) {
	close(w.begun)
	for range 10_000 {
		if w.read.Load() {
			break
		}
		runtime.Gosched()
	}
	w.ended.Store(true)
	return len(p), nil
}

func (w *writing) Read([]byte) (int, error) {
	w.read.Store(true)
	if !w.ended.Load() {
		return 0, errors.New("it was read from while it was written to")
	}
	return 0, io.EOF
}

// 512 HTTP/2 connections without an account that sent pings and received no answer had
// the gateway keep nearly 10,000 answers of each, 290 MB. Nothing more is read now from a
// client that does not receive what is written.
func TestConn_Read_duringWrite(t *testing.T) {
	g := newGate(t, limit.Limits{})
	inner := &writing{stub: stub{from: &net.TCPAddr{}}, begun: make(chan struct{})}
	g.queue <- inner
	conn, err := g.limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, 1))
		written <- err
	}()
	<-inner.begun
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// 16 HTTP/2 connections without an account that sent pings, or requests that they reset
// at once, had each unlock of others take most of a second.
func TestConn_Read_yields(t *testing.T) {
	if onOneProcessor(t) {
		return
	}
	const reads = 1000
	_, conn := newGate(t, limit.Limits{}).knock("192.0.2.1:40000")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range reads {
			_, _ = conn.Read(make([]byte, 1))
		}
	}()
	for turns := 0; ; turns++ {
		select {
		case <-done:
			if turns < reads/10 {
				t.Errorf("another goroutine had %d turns during %d reads", turns, reads)
			}
			return
		default:
			runtime.Gosched()
		}
	}
}
