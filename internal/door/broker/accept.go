package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"gatehouse/internal/limit"
)

// acceptPause is the pause after a failed accept, for example when the descriptors are
// used up.
const acceptPause = 50 * time.Millisecond

// accept takes connections from one listener until ctx ends. Only a listener that
// was closed elsewhere is an error.
func (s *Server) accept(ctx context.Context, l Listener) error {
	for {
		raw, err := l.Net.Accept()
		switch {
		case err == nil:
			s.welcome(raw, l.TLS)
			runtime.Gosched() // a flood of newcomers does not delay connected stations
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the listener was closed to end the loop
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accepting on %s: %w", l.Net.Addr(), err)
		default:
			s.ledger.Warn("accepting a station's connection failed", "error", err, "listener", l.Net.Addr().String())
			rest(ctx, acceptPause)
		}
	}
}

// rest waits, unless ctx ends before.
func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// welcome serves an accepted connection in a goroutine of its own, if there is room
// for it.
func (s *Server) welcome(raw net.Conn, secure *tls.Config) {
	c := s.newConn(raw, secure)
	if err := c.socket.prepare(); err != nil { // it is dead already
		c.Reset(reasonLost)
		return
	}
	if err := s.pool.Enter(&c.slot, limit.Address(raw.RemoteAddr()), c); err != nil {
		r := errFull
		if errors.Is(err, limit.ErrAddress) {
			r = errAddress
		}
		s.note(c, r)
		c.Reset(r.reason)
		return
	}
	s.conns.Go(func() { s.serve(c) })
}

// Evict implements [limit.Holder]. A connection is evicted before its CONNECT
// alone: after it, it is working.
func (c *Conn) Evict() {
	c.server.note(c, errCrowded)
	c.Reset(errCrowded.reason)
}

// serve sees a connection through. A goroutine of its own reads what follows the
// handshakes: the stack of this one has grown by them.
func (s *Server) serve(c *Conn) {
	err := s.safely(func() error { return s.establish(c) })
	if c.announced && err == nil {
		s.conns.Go(func() { s.conclude(c, s.safely(c.converse)) })
		return
	}
	s.conclude(c, err)
}

// conclude ends a connection whose conversation has ended, up to the last call of the handler.
func (s *Server) conclude(c *Conn, err error) {
	if c.replaced.Load() {
		c.endReplaced()
	}
	c.end("", nil)
	<-c.done
	reason := c.reason
	if reason == "" { // it follows from how the conversation ended
		reason = s.explain(c, err)
	}
	c.slot.Leave()
	s.seats.leave(c, func(shown *Conn) { s.cfg.Handler.Disconnected(shown, reason) })
}

// safely calls f. A panic in it becomes an error.
func (s *Server) safely(f func() error) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			s.ledger.Warn("handling a packet broke", "kind", fmt.Sprintf("%T", broken), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return f()
}

// shakeHands does the TLS handshake, in its turn.
func (s *Server) shakeHands(c *Conn) error {
	defer c.gated.Done() // also if c has ended before, and after a panic
	err := s.hurry(c)
	if err == nil {
		err = c.gated.Await()
	}
	if err == nil {
		err = c.stream.(*tls.Conn).HandshakeContext(context.Background()) // deadlines bound it
	}
	if err != nil {
		return errors.Join(errHandshake, err)
	}
	return nil
}

// establish does the TLS handshake, and lets mochi do that of MQTT, up to CONNACK. The time
// to the CONNECT begins with the end of the former (contract, section 2).
func (s *Server) establish(c *Conn) error {
	if c.gated != nil {
		if err := s.shakeHands(c); err != nil {
			return err
		}
	}
	if err := s.hurry(c); err != nil {
		return err
	}
	connect, err := c.next()
	if err != nil {
		return err
	}
	w := &wire{Conn: c.stream, c: c, connect: bytes.NewReader(connect)}
	defer w.forget()
	err = s.mochi.EstablishConnection("stations", w)
	if c.announced { // mochi has read to the end of the CONNECT, which is an error to it
		return nil
	}
	return err
}

// hurry bounds what is left until the CONNECT, or until the end of the handshake.
func (s *Server) hurry(c *Conn) error {
	return c.raw.SetDeadline(time.Now().Add(s.cfg.Limits.ConnectTimeout))
}

// explain returns the reason why a conversation ended by itself, and counts it where
// it is a refusal: a connection may always be lost.
func (s *Server) explain(c *Conn, err error) string {
	r, _ := errors.AsType[*refusal](err)
	_, malformed := errors.AsType[packets.Code](err)
	switch {
	case err == nil:
		return reasonLeft
	case isLost(err):
		return reasonLost
	case errors.Is(err, os.ErrDeadlineExceeded) && c.seat != nil:
		return reasonSilent
	case errors.Is(err, os.ErrDeadlineExceeded):
		r = errNoConnect
	case r == nil && malformed:
		r = errMalformed
	case r == nil:
		return reasonLost
	}
	s.note(c, r)
	return r.reason
}

// isLost reports whether err means that the other side has gone.
func isLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
