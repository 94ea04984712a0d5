package kit_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http/httptest"
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
