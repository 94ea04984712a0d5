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
)

// Ping sees whether the broker lives: its accept loops run, and a CONNECT goes all
// the way through it, in memory, and is answered by its hook. It needs no free
// place and is not counted as a refusal.
func (s *Server) Ping(ctx context.Context) error {
	if n := s.serving.Load(); n == 0 || n != s.wanted.Load() {
		return errUnserved
	}
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := s.newConn(far, nil)
		c.probe = true
		s.serve(c, nil)
	}()
	stop := context.AfterFunc(ctx, func() { _ = near.Close() })
	err := probe(near)
	stop()
	_ = near.Close()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	if err := errors.Join(ctx.Err(), err); err != nil {
		return fmt.Errorf("pinging the broker: %w", err)
	}
	return nil
}

// probe asks on one end of a pipe and waits for the answer.
func probe(near net.Conn) error {
	question := []byte{typeConnect << 4, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, leastKeepalive, 0, 0}
	right := errAnonymous.connack(4)
	answer := make([]byte, len(right))
	if _, err := near.Write(question); err != nil {
		return err
	}
	if _, err := io.ReadFull(near, answer); err != nil {
		return err
	}
	if !bytes.Equal(answer, right) {
		return errProbe
	}
	return nil
}
