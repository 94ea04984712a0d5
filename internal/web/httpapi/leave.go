package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// silence is how long [Service.Leave] waits for connections on which no request has
// come yet: some clients open connections ahead, and anyone may.
const silence = 2 * time.Second

// Service serves one listener, and can leave it so that no request falls into the gap
// to its successor on the same socket. net/http's own Shutdown is not enough for that:
// it drops requests that it reads after it was called, without an answer.
type Service struct {
	server   *http.Server
	listener *LimitedListener
	secure   *tls.Config // nil: plain

	mu     sync.Mutex // mu guards states
	states map[net.Conn]http.ConnState
	change chan struct{} // capacity 1: a connection has changed its state
	ended  chan struct{} // closed when Serve has taken its last connection
}

// NewService gives a service for a handler of [API.Handler] or [API.Guide]; secure is
// nil for a plain listener; services that share it share its session tickets. Nothing is served before Serve.
func NewService(handler http.Handler, listener *LimitedListener, secure *tls.Config, logger *slog.Logger) *Service {
	s := &Service{
		server: NewServer(handler, logger), listener: listener,
		states: make(map[net.Conn]http.ConnState), change: make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	s.server.ConnState = func(c net.Conn, state http.ConnState) { track(c, state); s.note(c, state) }
	if secure != nil {
		s.server.TLSConfig = secure.Clone() // the server writes to it
		s.secure = secure
	}
	return s
}

// Serve serves until Leave; then it gives nil. Call it once.
func (s *Service) Serve() error {
	defer close(s.ended)
	err := s.serve()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Service) serve() error {
	if s.secure != nil {
		return s.server.Serve(tls.NewListener(s.listener, s.secure))
	}
	return s.server.Serve(s.listener)
}

// Leave ends the service: it takes no more connections, answers whoever it owes an
// answer, gives kept connections so long for one more request, which is answered too
// and told to come back elsewhere (see [API.Drain], which must have been called), and
// closes what is left. When ctx ends first, everything is closed at once. Serve must
// have been called, or be about to be.
func (s *Service) Leave(ctx context.Context, grace time.Duration) {
	_ = s.listener.Close()
	select {
	case <-s.ended: // what it took at its very end is counted
	case <-ctx.Done():
	}
	s.settle(ctx, grace)
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
}

// settle waits until nobody is owed an answer and grace is over, or until nobody is
// left.
func (s *Service) settle(ctx context.Context, grace time.Duration) {
	kept := time.NewTimer(grace)
	defer kept.Stop()
	silent := time.AfterFunc(silence, s.closeSilent)
	defer silent.Stop()
	for waited := false; ; {
		owed, all := s.count()
		if all == 0 || (owed == 0 && waited) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-kept.C:
			waited = true
		case <-s.change:
		}
	}
}

// closeSilent closes the connections on which no request has come yet.
func (s *Service) closeSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, state := range s.states {
		if state == http.StateNew {
			go c.Close() // which may wait for the other side, where it is TLS
		}
	}
}

// note is the server's ConnState.
func (s *Service) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(s.states, c)
	} else {
		s.states[c] = state
	}
	s.mu.Unlock()
	select {
	case s.change <- struct{}{}:
	default:
	}
}

// count says how many connections there are, and how many wait for an answer or have
// not asked yet.
func (s *Service) count() (owed, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.states {
		if state != http.StateIdle {
			owed++
		}
	}
	return owed, len(s.states)
}
