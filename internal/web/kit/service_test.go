package kit_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/metric"
	"gatehouse/internal/web/kit"
)

// A client that has opened a TLS connection and asks nothing does not hold up the end
// until the last moment.
func TestService_Shutdown_silentClients(t *testing.T) {
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := k.NewService(k.Handler(true), inner, admission.New(admission.Limits{}),
		&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	silent, err := tls.Dial("tcp", inner.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // a test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	half, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = half.Close() }()
	if _, err := half.Write([]byte{0x16, 0x03}); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // sooner than the headers have to be there
	defer cancel()
	s.Shutdown(ctx, 0)
	if ctx.Err() != nil {
		t.Error("silent clients held up the end for as long as it may take")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A request on a connection that was accepted before the shutdown is answered, though it
// comes after it.
func TestService_Shutdown_newConnection(t *testing.T) {
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := k.NewService(k.Handler(false), inner, admission.New(admission.Limits{}), nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for s.Connections() == 0 {
		runtime.Gosched()
	}
	k.Drain()
	ended := make(chan struct{})
	go func() { defer close(ended); s.Shutdown(t.Context(), 0) }()
	for { // until it is shutting down
		late, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			break
		}
		_ = late.Close()
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); !strings.HasPrefix(string(answer), "HTTP/1.1 404") {
		t.Errorf("answered %q, %v", answer, err)
	}
	<-ended
	if err := <-served; err != nil {
		t.Error(err)
	}
}
