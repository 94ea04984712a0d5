package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"gatehouse/internal/test/await"
	"gatehouse/internal/web/kit"
)

// More requests whose bodies never end than there may be under way: the oldest of the
// address that has most are evicted, and a request of another address is answered. A
// request that is being worked on stays.
func TestServer_unfinishedRequests(t *testing.T) {
	const beyond = 10
	w := newWorldWith(t, allOptions(), nil, func(s *http.Server) { s.ReadTimeout = 0 })
	events := w.follow("")
	events.want("station", id(0), stationJSON)
	evicted := func() uint64 { return w.metrics.Counter(`gatehouse_refusals_total{reason="http-connections"}`).Get() }
	for n := range kit.MaxRequests + beyond {
		conn := w.dialFrom(fmt.Sprintf("127.0.1.%d", 1+n%3))
		if _, err := io.WriteString(conn, "POST /v1/auth/login HTTP/1.1\r\nHost: 192.0.2.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "as many are evicted as are too many", func() bool { return evicted() == beyond })
	w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin})
	if n := evicted(); n != beyond+1 {
		t.Errorf("%d were evicted", n)
	}
	w.stations.happen(stationID, 3.6)
	events.want("station", id(1), at("3.6"))
}

// An answer over HTTP/2 that its client has no room for keeps its place until it is
// evicted; all that is under way has a place.
func TestServer_answerNotTaken(t *testing.T) {
	w := newTLSWorld(t)
	transport := w.client.Transport.(*http.Transport)
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1, MaxReceiveBufferPerConnection: 64 << 10}
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/v1/openapi.json"}))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	await.Until(t, "it has a place", func() bool { return w.requests() == 1 })
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it has none", func() bool { return w.requests() == 0 })
}

// A stream has no place among the requests in flight, and its connection
// is not evicted.
func TestServer_stream(t *testing.T) {
	stream := kit.Route{Method: "GET", Pattern: "/stream", Serve: func(x *kit.Exchange) error {
		return x.Follow(kit.Lines(), nil, func(s *kit.Stream) error {
			s.Wait(nil)
			return nil
		})
	}}
	w := newWorldWith(t, allOptions(), []kit.Route{stream}, unchanged)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/stream"}).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	await.Until(t, "no request has a place", func() bool { return w.requests() == 0 })
	if _, unfinished := w.pool.Count(); unfinished != 0 {
		t.Errorf("%d connections can be evicted", unfinished)
	}
	cancel()
}

// Nothing is kept of an HTTP/2 connection that ends with requests in flight. net/http kept
// all of it, 60 KB and more, for as long as a connection may be idle.
func TestServer_endedHTTP2Connection(t *testing.T) {
	w := newTLSWorld(t)
	var mu sync.Mutex // mu guards dialled
	var dialled net.Conn
	w.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		dialled = conn
		return conn, err
	}
	unfinished, end := io.Pipe()
	defer end.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		r := w.build(request{method: "POST", path: "/v1/auth/login", body: goodLogin})
		r.Body, r.ContentLength = unfinished, -1
		if resp, err := w.client.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	await.Until(t, "the request is in flight", func() bool { return w.requests() == 1 })
	conn := weak.Make(w.pool.Holders()[0].(*kit.Conn))
	mu.Lock()
	_ = dialled.Close()
	mu.Unlock()
	<-answered
	await.Until(t, "its memory is free", func() bool { runtime.GC(); return conn.Value() == nil })
}

// dialFrom connects from an address of this machine.
func (w *world) dialFrom(host string) net.Conn {
	w.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	conn, err := dialer.DialContext(context.Background(), "tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A request of HTTP/1.1 with a body is answered when the body is there, and its
// connection is kept.
func TestServer_bodyInParts(t *testing.T) {
	w := newWorld(t)
	conn := w.dialFrom("127.0.0.1")
	in := bufio.NewReader(conn)
	for range 2 {
		for _, part := range []string{
			fmt.Sprintf("POST /v1/auth/login HTTP/1.1\r\nHost: 192.0.2.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(goodLogin)),
			goodLogin[:5], goodLogin[5:],
		} {
			if _, err := io.Copy(conn, strings.NewReader(part)); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("answered %s", resp.Status)
		}
	}
	await.Until(t, "no request has a place", func() bool { return w.requests() == 0 })
}
