package attacktest_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// healthy is an app that keeps opening a door of a station that answers, over one
// connection that it keeps, while an attack goes on.
type healthy struct {
	t     *testing.T
	mu    sync.Mutex // mu guards what follows
	took  []time.Duration
	lost  int // requests without the answer true
	first string
	stop  context.CancelFunc
	done  chan struct{}
}

// startHealthy enrols the station, connects it and begins to unlock, once every so
// often. The account must exist.
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
	p.AwaitOnline(id, true)
	h := &healthy{t: t, stop: stop, done: make(chan struct{})}
	url := p.HTTP + "/v1/stations/" + issued.StationToken + "/locks/lock-1/unlock"
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // our own gateway
	go func() {
		defer close(h.done)
		defer transport.CloseIdleConnections()
		pace := time.NewTicker(every)
		defer pace.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			why := unlock(ctx, transport, url, access)
			if ctx.Err() != nil {
				return
			}
			h.note(time.Since(began), why)
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(h.end)
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
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
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

func (h *healthy) note(took time.Duration, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = append(h.took, took)
	if why != "" {
		h.lost++
		if h.first == "" {
			h.first = why
		}
	}
}

func (h *healthy) end() {
	h.stop()
	<-h.done
}

// judge ends the app: none of its unlocks may have been lost. It returns how long they
// took.
func (h *healthy) judge() (p50, p99, most time.Duration) {
	h.t.Helper()
	h.end()
	if h.lost > 0 || len(h.took) == 0 {
		h.t.Errorf("%d of %d unlocks of a healthy app were lost: %s", h.lost, len(h.took), h.first)
		return 0, 0, 0
	}
	slices.Sort(h.took)
	p50, p99, most = h.took[len(h.took)/2], h.took[len(h.took)*99/100], h.took[len(h.took)-1]
	h.t.Logf("a healthy app: %d unlocks, p50 %v, p99 %v, most %v", len(h.took), p50, p99, most)
	return p50, p99, most
}
