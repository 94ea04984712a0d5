package httpapi_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
)

// heartbeatEvery is how often a quiet stream sends a comment.
const heartbeatEvery = 15 * time.Second

// pipe is a response whose reader takes what it likes, in the time of a bubble.
type pipe struct {
	header http.Header

	mu       sync.Mutex // mu guards what follows
	status   int
	text     strings.Builder
	stuck    bool // nobody reads any more
	deadline time.Time
	failed   time.Time // when a write failed
}

func (p *pipe) Header() http.Header { return p.header }

func (p *pipe) WriteHeader(status int) { p.status = status }

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck {
		<-time.After(time.Until(p.deadline)) // in a bubble
		p.failed = time.Now()
		return 0, os.ErrDeadlineExceeded
	}
	return p.text.Write(b)
}

func (p *pipe) Flush() {}

func (p *pipe) SetWriteDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	return nil
}

func (p *pipe) string() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func (p *pipe) writeDeadline() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadline
}

// streamIn runs a stream in a bubble until the test has seen enough.
func streamIn(t *testing.T, see func(w *world, p *pipe, ended <-chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		w := newAPI(t, 0)
		p := &pipe{header: http.Header{}}
		ctx, cancel := context.WithCancel(t.Context())
		req := w.build(request{method: "GET", path: eventsPath, bearer: accessToken}).WithContext(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.handler(httpapi.Options{}).ServeHTTP(p, req)
		}()
		synctest.Wait()
		see(w, p, ended)
		cancel()
		<-ended
	})
}

func TestEvents_heartbeat(t *testing.T) {
	streamIn(t, func(_ *world, p *pipe, _ <-chan struct{}) {
		before := p.string()
		<-time.After(heartbeatEvery - 1)
		synctest.Wait()
		if p.string() != before {
			t.Errorf("too early: %q", p.string())
		}
		if deadline := p.writeDeadline(); !deadline.IsZero() { // HTTP/2 would have reset the stream then
			t.Errorf("a quiet stream has the deadline %v", deadline)
		}
		<-time.After(2 * heartbeatEvery)
		synctest.Wait()
		if got := strings.TrimPrefix(p.string(), before); got != ": heartbeat\n\n: heartbeat\n\n" {
			t.Errorf("got %q", got)
		}
	})
}

// A reader that takes nothing loses the stream once a write has waited long enough.
func TestEvents_slowReader(t *testing.T) {
	streamIn(t, func(w *world, p *pipe, ended <-chan struct{}) {
		p.mu.Lock()
		p.stuck = true
		p.mu.Unlock()
		begun := time.Now()
		w.stations.happen(stationID, 3.6)
		<-ended
		if waited := p.failed.Sub(begun); waited != kit.WriteTimeout {
			t.Errorf("ended after %v", waited)
		}
	})
}

// Leave that has ended is noticed within a second, and there is time to say so.
func TestEvents_endsSoon(t *testing.T) {
	streamIn(t, func(w *world, p *pipe, ended <-chan struct{}) {
		<-time.After(heartbeatEvery - 1) // the last write is long ago
		begun := time.Now()
		w.access.with(func() { delete(w.access.tokens, accessToken) })
		<-ended
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("ended after %v", waited)
		}
		if !p.writeDeadline().After(time.Now()) {
			t.Error("no time is left for the end of the response")
		}
	})
}
