package kit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"gatehouse/internal/limit"
)

// Service serves one listener, and shuts down so that no request is lost between it and
// its successor on the same socket. net/http's own Shutdown is not enough for that: it
// drops requests that it reads after it was called, without an answer.
type Service struct {
	net.Listener
	Server *http.Server // may be changed before Serve

	kit    *Kit
	pool   *limit.Pool
	secure *tls.Config // nil: plain

	mu     sync.Mutex // mu guards states
	states map[net.Conn]http.ConnState
	ended  chan struct{} // closed when Serve has accepted its last connection
}

// NewService returns a service for a handler of [Kit.Handler] on a listener, whose
// connections pool bounds; services may share it. secure is nil for a plain listener;
// where the kit has handshakes, they have made it. Services that share it share its
// session tickets. Nothing is served before Serve.
func (k *Kit) NewService(handler http.Handler, inner net.Listener, pool *limit.Pool, secure *tls.Config) *Service {
	s := &Service{
		Listener: k.Receive(inner), Server: k.NewServer(handler), kit: k, pool: pool, secure: secure,
		states: make(map[net.Conn]http.ConnState), ended: make(chan struct{}),
	}
	s.Server.ConnState = s.note
	s.Server.TLSConfig = secure.Clone() // the server writes to it
	return s
}

// Serve serves until Shutdown; then it returns nil. Call it once.
func (s *Service) Serve() error {
	defer close(s.ended)
	var listener net.Listener = s
	if s.secure != nil {
		listener = tls.NewListener(s, s.secure)
	}
	err := s.Server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Shutdown drains the service; [Kit.Drain] must have been called. It accepts no more
// connections, and requests in flight get their answers. Other connections get the time
// grace for one more request, which is answered with "Connection: close". Then it closes
// what is left. When ctx ends first, everything is closed at once. Serve must have been
// called, or be about to be.
func (s *Service) Shutdown(ctx context.Context, grace time.Duration) {
	_ = s.Close()
	select {
	case <-s.ended: // what was accepted last is counted
	case <-ctx.Done():
	}
	s.wait(ctx, grace)
	_ = s.Server.Close()
}

const (
	// lookEvery is how often a shutdown counts its connections.
	lookEvery = 10 * time.Millisecond
	// silence is how long it waits for those on which no request has come yet: some
	// clients open connections ahead, and anyone may.
	silence = 2 * time.Second
)

// wait waits until no request is in flight and grace is over, or until there is no
// connection.
func (s *Service) wait(ctx context.Context, grace time.Duration) {
	begun := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		waited := time.Since(begun)
		pending, all := s.count(waited < silence)
		if all == 0 || (pending == 0 && waited > grace) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note keeps the state of a connection. It is idle between requests; with one it is
// unfinished, until the request itself has acquired a slot (see inflight.go).
func (s *Service) note(c net.Conn, state http.ConnState) {
	noteHeader(c, state)
	switch state {
	case http.StateActive:
		connOf(c).slot.Move(limit.Unfinished)
	case http.StateIdle:
		connOf(c).slot.Move(limit.Idle)
	case http.StateNew, http.StateClosed, http.StateHijacked:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateClosed {
		delete(s.states, c)
	} else {
		s.states[c] = state
	}
}

// count returns how many connections there are, and how many of them have a request in
// flight, or with fresh have sent none yet.
func (s *Service) count(fresh bool) (pending, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.states {
		if state == http.StateActive || fresh && state == http.StateNew {
			pending++
		}
	}
	return pending, len(s.states)
}
