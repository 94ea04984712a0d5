package kit_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/web/kit"
)

// draining is a service in a bubble that will shut down.
type draining struct {
	*kit.Service
	kit    *kit.Kit
	queue  queue
	served chan error
	rest   chan struct{} // received before the answer to GET /read is whole
}

// drained is a queue that is closed twice: by Shutdown, and by Serve at its end.
type drained struct {
	queue
	once sync.Once
}

func (d *drained) Close() error { d.once.Do(func() { close(d.queue) }); return nil }

// serveInBubble serves in virtual time until it has shut down, which run brings about.
func serveInBubble(t *testing.T, limits limit.Limits, secure *tls.Config, run func(t *testing.T, s draining)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
		s := draining{kit: k, queue: make(queue), served: make(chan error, 1)}
		s.rest = make(chan struct{})
		read := kit.Route{Method: http.MethodGet, Pattern: "/read", Serve: func(x *kit.Exchange) error {
			defer func() { <-s.rest }()
			return x.Encode(http.StatusOK, 1)
		}}
		s.Service = k.NewService(k.Handler(secure != nil, []kit.Route{read}), &drained{queue: s.queue}, limit.NewPool(limits), secure)
		go func() { s.served <- s.Serve() }()
		run(t, s)
		if err := <-s.served; err != nil {
			t.Error(err)
		}
	})
}

// connect opens a connection.
func (s draining) connect() net.Conn {
	near, far := net.Pipe()
	s.queue <- far
	return near
}

// A client that has opened a TLS connection and asks nothing does not hold up the end
// until the last moment.
func TestService_Shutdown_silentClients(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	secure := &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}
	serveInBubble(t, limit.Limits{}, secure, func(t *testing.T, s draining) {
		silent := tls.Client(s.connect(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // a test's own
		defer func() { _ = silent.NetConn().Close() }()
		if err := silent.Handshake(); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, silent) }() // a pipe has no buffer
		half := s.connect()
		defer func() { _ = half.Close() }()
		if _, err := half.Write([]byte{0x16, 0x03}); err != nil {
			t.Fatal(err)
		}
		s.kit.Drain()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // sooner than the headers have to be there, in the bubble
		defer cancel()
		s.Shutdown(ctx, 0)
		if ctx.Err() != nil {
			t.Error("silent clients held up the end for as long as it may take")
		}
	})
}

// A request on a connection that was accepted before the shutdown is answered, though it
// comes after it.
func TestService_Shutdown_newConnection(t *testing.T) {
	serveInBubble(t, limit.Limits{}, nil, func(t *testing.T, s draining) {
		conn := s.connect()
		defer func() { _ = conn.Close() }()
		s.kit.Drain()
		ended := make(chan struct{})
		go func() { defer close(ended); s.Shutdown(t.Context(), 0) }()
		synctest.Wait() // it is shutting down
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); !strings.HasPrefix(string(answer), "HTTP/1.1 404") {
			t.Errorf("answered %q, %v", answer, err)
		}
		<-ended
	})
}

// An answer on its way is not cut off by newcomers, unless it takes
// long.
func TestService_Accept_duringAnswer(t *testing.T) {
	serveInBubble(t, limit.Limits{Total: 1}, nil, func(t *testing.T, s draining) {
		for _, late := range []time.Duration{0, 101 * time.Millisecond} {
			asks := s.connect()
			if _, err := io.WriteString(asks, "GET /read HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // its answer has begun
			time.Sleep(late)
			newcomer := s.connect()
			synctest.Wait()
			s.rest <- struct{}{}
			answer, err := io.ReadAll(asks)
			if whole := strings.HasSuffix(string(answer), "\r\n\r\n1\n"); whole != (late == 0) {
				t.Errorf("an answer of %s: %q, %v", late, answer, err)
			}
			_ = newcomer.Close()
			synctest.Wait()
		}
		s.Shutdown(t.Context(), 0)
	})
}
