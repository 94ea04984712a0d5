package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// What Ping finds wrong.
var (
	errProbe    = errors.New("the broker answers wrongly")
	errUnserved = errors.New("the broker does not accept connections")
	errNoReturn = errors.New("an earlier ping of the broker has not come back")
)

// Ping sees whether the broker lives: its accept loops run, and a CONNECT goes all
// the way through it, in memory, and is answered by its hook. It needs no free
// place and is not counted as a refusal.
func (s *Server) Ping(ctx context.Context) error {
	if n := s.serving.Load(); n == 0 || n != s.wanted.Load() {
		return errUnserved
	}
	if !s.probing.TryLock() {
		return errNoReturn
	}
	near, far := net.Pipe()
	defer near.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer s.probing.Unlock() // before the end is told: the next ping may come at once
		c := s.newConn(far, nil)
		c.probe = true
		s.serve(c, nil)
	}()
	if err := probe(ctx, near); err != nil {
		return fmt.Errorf("pinging the broker: %w", err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pinging the broker: %w", ctx.Err())
	}
}

// probe asks on one end of a pipe and waits for the answer.
func probe(ctx context.Context, near net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = near.Close() })
	defer stop()
	question := []byte{typeConnect << 4, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, leastKeepalive, 0, 0}
	right := errAnonymous.connack(4)
	answer := make([]byte, len(right))
	if _, err := near.Write(question); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if _, err := io.ReadFull(near, answer); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if !bytes.Equal(answer, right) {
		return errProbe
	}
	return nil
}
