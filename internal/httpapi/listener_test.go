package httpapi_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/httpapi"
	"gatehouse/internal/metric"
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

// stub is a connection from an address; it gives what the test has put in.
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

func newGate(t *testing.T) *gate {
	g := &gate{t: t, queue: make(queue, 1), metrics: metric.New()}
	g.limited = httpapi.LimitListener(g.queue, httpapi.MaxConnections, httpapi.MaxConnectionsPerAddress, g.metrics)
	return g
}

// knock has a connection come in. It is admitted if it is what Accept gives; else
// Accept goes on, to the end of the queue that the test then makes.
func (g *gate) knock(from string) (*stub, net.Conn) {
	g.t.Helper()
	s := g.arrive(from)
	conn, err := g.limited.Accept()
	if err != nil {
		g.t.Fatal(err)
	}
	if conn.RemoteAddr() != s.from {
		g.t.Fatalf("%s was not admitted", from)
	}
	return s, conn
}

// arrive puts a connection into the queue.
func (g *gate) arrive(from string) *stub {
	g.t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		g.t.Fatal(err)
	}
	s := &stub{from: addr, in: strings.NewReader("GET / HTTP/1.1\r\n")}
	g.queue <- s
	return s
}

// knockInVain has a connection come in that is refused.
func (g *gate) knockInVain(from string) {
	g.t.Helper()
	s := g.arrive(from)
	close(g.queue)
	if _, err := g.limited.Accept(); !errors.Is(err, net.ErrClosed) {
		g.t.Fatalf("%s: %v, want it refused", from, err)
	}
	if !s.closed {
		g.t.Errorf("%s was refused and left open", from)
	}
}

func (g *gate) refused() uint64 {
	return g.metrics.Counter(`gatehouse_refusals_total{reason="http-connections"}`).Get()
}

func speak(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }

func TestLimitListener_perAddress(t *testing.T) {
	for name, addresses := range map[string][3]string{ // one address twice, and another
		"IPv4":            {"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"},
		"IPv4 in IPv6":    {"192.0.2.1:1", "[::ffff:192.0.2.1]:2", "[::ffff:192.0.2.2]:1"},
		"IPv6, by prefix": {"[2001:db8::1]:1", "[2001:db8::ffff:2]:1", "[2001:db8:0:1::1]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			for range httpapi.MaxConnectionsPerAddress {
				_, conn := g.knock(addresses[0])
				speak(conn)
			}
			_, conn := g.knock(addresses[2]) // another address is not concerned
			speak(conn)
			if n := g.refused(); n != 0 {
				t.Errorf("%d refused", n)
			}
			g.knockInVain(addresses[1])
			if n := g.refused(); n != 1 {
				t.Errorf("%d refused", n)
			}
		})
	}
}

func TestLimitListener_total(t *testing.T) {
	g := newGate(t)
	for range httpapi.MaxConnections {
		_, conn := g.knock("127.0.0.1:1") // a proxy: no bound of its own
		speak(conn)
	}
	g.knockInVain("192.0.2.1:1")
}

// A closed connection makes room, once.
func TestLimitListener_close(t *testing.T) {
	g := newGate(t)
	var last net.Conn
	for range httpapi.MaxConnectionsPerAddress {
		_, last = g.knock("192.0.2.1:1")
		speak(last)
	}
	_ = last.Close()
	_ = last.Close()
	_, conn := g.knock("192.0.2.1:1")
	speak(conn)
	g.knockInVain("192.0.2.1:1")
}

// A flood of silent connections keeps nobody out: the oldest silent one goes, of the
// same address where that is at its bound.
func TestLimitListener_silentOfAnAddress(t *testing.T) {
	g := newGate(t)
	other, _ := g.knock("192.0.2.2:1") // older, but nobody's business
	heard, conn := g.knock("192.0.2.1:1")
	speak(conn)
	silent := g.knockOften("192.0.2.1:1", httpapi.MaxConnectionsPerAddress-1)
	later := g.knockOften("192.0.2.1:1", len(silent))
	if other.closed || heard.closed || open(silent) != 0 || open(later) != len(later) {
		t.Errorf("closed: other %v, heard %v; open: %d silent, %d later", other.closed, heard.closed, open(silent), open(later))
	}
	if n := g.refused(); n != uint64(len(later)) {
		t.Errorf("%d counted", n)
	}
}

func TestLimitListener_silentInAll(t *testing.T) {
	g := newGate(t)
	heard, conn := g.knock("192.0.2.1:1")
	speak(conn)
	silent := g.knockOften("127.0.0.1:1", httpapi.MaxConnections-1)
	later := g.knockOften("192.0.2.2:1", 3)
	if heard.closed || open(silent) != len(silent)-3 || !silent[0].closed || open(later) != 3 {
		t.Errorf("closed: heard %v, oldest %v; open: %d silent, %d later", heard.closed, silent[0].closed, open(silent), open(later))
	}
}

func (g *gate) knockOften(from string, times int) []*stub {
	g.t.Helper()
	stubs := make([]*stub, times)
	for i := range stubs {
		stubs[i], _ = g.knock(from)
	}
	return stubs
}

func open(stubs []*stub) (n int) {
	for _, s := range stubs {
		if !s.closed {
			n++
		}
	}
	return n
}

// The same over real connections: a flood from one address, and a request gets its
// answer.
func TestLimitListener_flood(t *testing.T) {
	w := newWorld(t)
	for range httpapi.MaxConnections + 100 {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}).want(t, 200, stationJSON)
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
func TestLimitListener_acceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lame{make(queue), []error{
			syscall.ENOBUFS, syscall.ENOMEM, syscall.EMFILE, syscall.EPERM, syscall.EPROTO, syscall.ECONNABORTED,
			syscall.ENOBUFS, syscall.ENOBUFS, syscall.ENOBUFS, syscall.ENOBUFS,
		}}
		metrics, logs := metric.New(), &bytes.Buffer{}
		limited := httpapi.LimitListener(l, 1, 1, metrics)
		server := httpapi.NewServer(nil, slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
		served, begun := make(chan error, 1), time.Now()
		go func() { served <- server.Serve(limited) }()
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
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("serving ended: %v", err)
		}
		_ = server.Close()
	})
}

// What net/http says by itself becomes JSON; what looks like it inside a body does not.
func TestJSONAnswer(t *testing.T) {
	const textHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	for text, want := range map[string]string{
		"HTTP/1.1 400 Bad Request" + textHead + "400 Bad Request":                                                             message("Bad Request"),
		"HTTP/1.1 400 Bad Request: missing required Host header" + textHead + "400 Bad Request: missing required Host header": message("Bad Request: missing required Host header"),
		"HTTP/1.1 501 Not Implemented" + textHead + "Unsupported transfer encoding":                                           message("Unsupported transfer encoding"),
		"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n":                                   message("Client sent an HTTP request to an HTTPS server."),
	} {
		answer, ok := httpapi.JSONAnswer([]byte(text))
		if !ok {
			t.Errorf("%q is left as it is", text)
			continue
		}
		got := readAnswer(t, answer)
		checkAny(t, "GET", *got)
		if got.body != want {
			t.Errorf("got %s, want %s", got.body, want)
		}
	}
	for _, text := range []string{
		"", "H", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 404 Not Found\r\nX: y" + textHead + "x", "HTTP/1.1 200 OK" + textHead + "x", "x" + textHead,
	} {
		if answer, ok := httpapi.JSONAnswer([]byte(text)); ok {
			t.Errorf("%q becomes %q", text, answer)
		}
	}
}

func TestLimitListener_write(t *testing.T) {
	g := newGate(t)
	s, conn := g.knock("192.0.2.1:1")
	const text = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	if n, err := io.WriteString(conn, text); n != len(text) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if n, err := io.WriteString(conn, "as it is"); n != 8 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := s.out.String(); !strings.HasSuffix(got, message("Bad Request")+"as it is") {
		t.Errorf("got %q", got)
	}
	s.closed = true
	if _, err := io.WriteString(conn, text); err == nil {
		t.Error("a write to a closed connection succeeded")
	}
}
