package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/web/httpapi"
)

// newTLSWorld serves with the certificate of httptest, which its client trusts.
func newTLSWorld(t testing.TB) *world {
	t.Helper()
	donor := httptest.NewUnstartedServer(nil)
	donor.EnableHTTP2 = true
	donor.StartTLS()
	t.Cleanup(donor.Close)
	w := newWorldWith(t, httpapi.Options{}, nil, func(s *http.Server) {
		s.TLSConfig = &tls.Config{Certificates: donor.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	})
	w.base = "https://" + w.addr
	transport := donor.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	w.client.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	return w
}

func TestServer_http2(t *testing.T) {
	w := newTLSWorld(t)
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/healthz"}))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Errorf("spoke %s", resp.Proto)
	}
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}).want(t, 200, stationJSON)
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken}).want(t, 401, message("Token is invalid"))
	w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin + strings.Repeat(" ", 1<<20)}).
		want(t, 413, message("The body is too large: 16 KiB at most"))
	f := w.follow("")
	f.want("station", id(0), stationJSON)
	w.stations.happen(stationID, 3.6)
	f.want("station", id(1), at("3.6"))
	w.access.with(func() { delete(w.access.tokens, accessToken) })
	f.wantEnd()
}

func TestServer_plainOnTLS(t *testing.T) {
	w := newTLSWorld(t)
	got := readAnswer(t, w.raw(t, get+"\r\n"))
	if got == nil || got.status != 400 {
		t.Fatalf("got %v", got)
	}
	w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
}

// Sending the body slowly does not keep a connection for good.
func TestServer_slowBody(t *testing.T) {
	for _, path := range []string{"/v1/auth/login", "/v1/stations/" + stationToken + "/locks/1/unlock"} {
		inBubble(t, func(w *world, _ pipes) {
			body, feed := io.Pipe()
			defer feed.Close()
			go func() { _, _ = io.WriteString(feed, "{") }()
			req, err := http.NewRequestWithContext(context.Background(), "POST", w.base+path, bufio.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+accessToken)
			begun := time.Now()
			if resp, err := w.client.Do(req); err == nil {
				resp.Body.Close()
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%s: ended after %v", path, took)
			}
			w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
		})
	}
}
