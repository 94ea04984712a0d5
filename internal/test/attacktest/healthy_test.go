package attacktest_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// healthy is an app that keeps opening a door of a station that answers, over one
// connection that it keeps, while an attack goes on.
type healthy struct {
	t    *testing.T
	over chan struct{} // closed by judge
	done chan struct{} // closed when the app has ended; what follows is its own before

	asked, lost int           // requests, and those without the answer true
	first       string        // the error of the first lost unlock
	longest     time.Duration // that an unlock took
}

// startHealthy enrols the station, connects it, waits until the app has opened its door,
// and begins to unlock it, once every so often. The account must exist.
func startHealthy(t *testing.T, p *gatewaytest.Program, id site.StationID, every time.Duration) *healthy {
	t.Helper()
	issued := p.Enrol(id)
	access, _ := p.Login()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			answerCommands(ctx, p.MQTT, issued.MQTT)
			wait(ctx, 100*time.Millisecond)
		}
	}()
	url := p.HTTP + "/v1/stations/" + issued.StationToken + "/locks/lock-1/unlock"
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // our own gateway
	h := &healthy{t: t, over: make(chan struct{}), done: make(chan struct{})}
	await.Until(t, "the healthy app opens its door", func() bool { return unlock(ctx, transport, url, access) == "" })
	go func() {
		defer close(h.done)
		defer transport.CloseIdleConnections()
		pace := time.NewTicker(every)
		defer pace.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			h.note(unlock(ctx, transport, url, access))
			h.longest = max(h.longest, time.Since(began)) // real time: for the log, and for a share of the processor that a campaign sets
			select {
			case <-pace.C:
			case <-h.over:
				return
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { stop(); <-h.done })
	return h
}

// answerCommands is one connection of a station that acknowledges every command.
func answerCommands(ctx context.Context, address string, login adminapi.MQTTLogin) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	over := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer over()
	s := &gatewaytest.Station{Conn: conn, Login: login, Version: 4}
	if s.TryOpen(1) != nil {
		return
	}
	for {
		c, err := s.NextCommand()
		if err != nil || s.TryAck(c) != nil {
			return
		}
	}
}

// unlock asks once and returns what was wrong with the answer.
func unlock(ctx context.Context, transport http.RoundTripper, url, access string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+access)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	var answer struct{ Success bool }
	if json.Unmarshal(text, &answer) != nil || !answer.Success {
		return resp.Status + " " + string(text)
	}
	return ""
}

func (h *healthy) note(why string) {
	h.asked++
	if why != "" {
		h.lost++
		if h.first == "" {
			h.first = why
		}
	}
}

// judge ends the app with the answer to its last request: none of its unlocks may have
// been lost.
func (h *healthy) judge() {
	h.t.Helper()
	close(h.over)
	await.Receive(h.t, "the last unlock of a healthy app is answered", h.done)
	if h.lost > 0 {
		h.t.Errorf("%d of %d unlocks of a healthy app were lost: %s", h.lost, h.asked, h.first)
	}
	h.t.Logf("a healthy app opened its door %d times", h.asked-h.lost)
}
