package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/httpapi"
)

// More requests whose bodies never end than there may be under way: the oldest of the
// address that has most are evicted, and a request of another address is answered. A
// request that is being worked on stays.
func TestServer_unfinishedRequests(t *testing.T) {
	const beyond = 10
	w := newWorldWith(t, allOptions(), nil, func(s *http.Server) { s.ReadTimeout = 0 })
	events := w.follow("")
	events.want("station", id(0), stationJSON)
	evicted := func() uint64 { return w.metrics.Counter(`gatehouse_refusals_total{reason="http-requests"}`).Get() }
	for n := range httpapi.MaxRequests + beyond {
		conn := w.dialFrom(fmt.Sprintf("127.0.1.%d", 1+n%3))
		if _, err := io.WriteString(conn, "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "as many are evicted as are too many", func() bool { return evicted() == beyond })
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
	eventually(t, "it has a place", func() bool { return w.api.Requests() == 1 })
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has none", func() bool { return w.api.Requests() == 0 })
}

// A stream of the admin API has no place among the requests in flight, and its connection
// is not evicted.
func TestServer_adminStream(t *testing.T) {
	admin := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.(interface{ Streaming() }).Streaming()
		rw.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	w := newWorldWith(t, allOptions(), admin, func(*http.Server) {})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/admin/v1/journal"}).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := w.api.Requests(); n != 0 {
		t.Errorf("%d requests have a place", n)
	}
	if _, unfinished := w.crowd.Count(); unfinished != 0 {
		t.Errorf("%d connections can be evicted", unfinished)
	}
	cancel()
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
			fmt.Sprintf("POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(goodLogin)),
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
	eventually(t, "no request has a place", func() bool { return w.api.Requests() == 0 })
}
