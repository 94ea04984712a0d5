package broker

import (
	"net"
	"time"
)

// wire is a connection as mochi sees it. What mochi reads has been judged by the
// framer; each of its writes is one whole packet and takes turns with the commands;
// its deadlines hold for reading alone; its Close leaves no command behind.
type wire struct{ c *Conn }

// Read implements [net.Conn]. It returns one packet at a time, whole or in pieces: when the
// next one is judged, mochi has acted on those before. While a packet has to wait, nothing
// is read, so that TCP makes the station wait too.
func (w wire) Read(p []byte) (int, error) {
	c := w.c
	for c.passed == 0 {
		size, r := c.frames.next(c.held)
		if r != nil {
			return 0, c.refuse(r, c.frames.answer(r))
		}
		if size == 0 {
			n, err := c.stream.Read(p)
			if c.held = append(c.held, p[:n]...); n == 0 {
				return 0, err // else it comes again
			}
			continue
		}
		if err := c.keepPace(); err != nil {
			return 0, err
		}
		c.passed = size
	}
	n := copy(p, c.held[:c.passed])
	c.held, c.passed = c.held[n:], c.passed-n
	if len(c.held) == 0 {
		c.held = nil // an idle station costs no buffer
	}
	return n, nil
}

// Write implements [net.Conn].
func (w wire) Write(packet []byte) (int, error) {
	if len(packet) == 0 {
		return 0, nil
	}
	if err := w.c.write(packet); err != nil {
		return 0, err
	}
	return len(packet), nil
}

// Close implements [net.Conn]. The reason of the end follows later (see serve).
func (w wire) Close() error {
	w.c.end("", nil)
	return nil
}

// SetDeadline implements [net.Conn] for reading: mochi means its keepalive by it,
// and writes have deadlines of their own.
func (w wire) SetDeadline(t time.Time) error { return w.c.stream.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (w wire) SetReadDeadline(t time.Time) error { return w.c.stream.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn]; it has no effect.
func (wire) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements [net.Conn].
func (w wire) LocalAddr() net.Addr { return w.c.raw.LocalAddr() }

// RemoteAddr implements [net.Conn].
func (w wire) RemoteAddr() net.Addr { return w.c.raw.RemoteAddr() }
