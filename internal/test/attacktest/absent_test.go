package attacktest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// A phone's link dies with an unlock on its way, its app stops waiting and closes, the link
// comes back: the request arrived at 9.5 s, and the door opened at 13.3 s with nobody
// waiting. Here the gateway stands still between the request and the client's end.
func TestAttack_absentClient(t *testing.T) {
	t.Parallel()
	rounds := 1
	if gatewaytest.Torture() {
		rounds = 500
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}})
	p.AddAccount()
	if _, err := p.Admin.SetAdmin(t.Context(), gatewaytest.Email, true); err != nil {
		t.Fatal(err)
	}
	access, _ := p.Login()
	issued := p.Enrol(1042)
	station := p.Dial(issued.MQTT)
	t.Cleanup(station.Close)
	p.AwaitOnline(1042, true)
	came := make(chan string, 1000)
	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil {
				return
			}
			came <- c.ID
			_ = station.TryAck(c)
		}
	}()
	unlock := "/v1/stations/" + issued.StationToken + "/locks/1/unlock"
	admin := "/admin/v1/stations/1042/locks/1/unlock"
	for name, c := range map[string]struct {
		url, body string
		http2     bool
	}{
		"plain":                {p.HTTP + unlock, "", false},
		"plain with a body":    {p.HTTP + unlock, "{}", false},
		"TLS":                  {p.HTTPS + unlock, "", false},
		"HTTP/2":               {p.HTTPS + unlock, "", true},
		"HTTP/2, body":         {p.HTTPS + unlock, "{}", true},
		"administrator":        {p.HTTPS + admin, "{}", false},
		"administrator HTTP/2": {p.HTTPS + admin, "{}", true},
	} {
		for range rounds {
			t.Log(name)
			refused := countOutcome(p, site.Refused)
			askAndGo(t, p, c.url, access, c.body, c.http2)
			await.Until(t, name+": the request is dealt with", func() bool {
				return countOutcome(p, site.Refused) > refused || len(came) > 0
			})
			if len(came) > 0 {
				t.Fatalf("%s: command %s left though nobody waited", name, <-came)
			}
		}
	}
	if !p.Unlock(access, issued.StationToken) {
		t.Error("a client that waits does not open the door")
	}
}

// countOutcome counts the unlocks that ended so.
func countOutcome(p *gatewaytest.Program, outcome site.Outcome) (n int) {
	for _, r := range p.Records() {
		if r.Kind == site.KindUnlock && r.Outcome == outcome {
			n++
		}
	}
	return n
}

// askAndGo sends a request while the gateway stands still, and closes its connection
// before the gateway goes on.
func askAndGo(t *testing.T, p *gatewaytest.Program, url, bearer, body string, http2 bool) {
	t.Helper()
	var conn *leaving
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test's own gateway
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if conn != nil {
				return nil, errors.New("a second connection, to a gateway that stands still")
			}
			raw, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			conn = &leaving{Conn: raw}
			return conn, nil
		},
		ForceAttemptHTTP2: http2,
	}
	defer transport.CloseIdleConnections()
	do := func(ctx context.Context, method, url, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		return transport.RoundTrip(r)
	}
	healthz := url[:strings.Index(url, "/v1/")] + "/healthz" //nolint:gocritic // it is there
	first, err := do(t.Context(), http.MethodGet, healthz, "")
	if err != nil {
		t.Fatal(err)
	}
	// Read to its end: HTTP/1.1 keeps no connection with an unread answer, and a new one
	// over TLS waits for the gateway, which stands still.
	_, err = io.Copy(io.Discard, first.Body)
	_ = first.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if (first.ProtoMajor == 2) != http2 {
		t.Fatalf("over %s", first.Proto)
	}
	halt(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if http2 { // which writes in parts
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
	} else { // whose trace comes before the last part is on its way
		conn.wrote.Store(&cancel)
	}
	if answer, err := do(ctx, http.MethodPost, url, body); err == nil {
		_ = answer.Body.Close()
		t.Error("answered while it stood still")
	}
	_ = conn.Close()
	await.Until(t, "the client's end has arrived", func() bool {
		state, _ := farEnd(t, conn)
		return state == closeWait
	})
	resume(t, p)
}

// leaving is a connection that calls wrote, once there is one, after each write.
type leaving struct {
	net.Conn
	wrote atomic.Pointer[context.CancelFunc]
}

func (l *leaving) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	if wrote := l.wrote.Load(); wrote != nil {
		(*wrote)()
	}
	return n, err
}

// Close implements [net.Conn]. The gateway learns of it even while a process that another
// test has forked still holds the socket, until it executes its program.
func (l *leaving) Close() error {
	return errors.Join(l.Conn.(*net.TCPConn).CloseWrite(), l.Conn.Close())
}
