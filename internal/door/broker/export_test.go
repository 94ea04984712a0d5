package broker

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/metric"
)

// Leftovers counts the connections that the library keeps.
func (s *Server) Leftovers() int { return s.mochi.Clients.Len() }

// WelcomeEvicted serves a connection that is evicted before its handshake.
func (s *Server) WelcomeEvicted(raw net.Conn, secure *tls.Config) {
	c := s.newConn(raw, secure)
	c.Reset(errCrowded.reason)
	s.conns.Go(func() { s.serve(c) })
}

// Replaced reports whether another connection takes the place of this one.
func (c *Conn) Replaced() bool { return c.replaced.Load() }

// Expire lets the time of the commands in flight be over.
func (c *Conn) Expire() {
	c.writing <- struct{}{}
	defer c.unlock()
	c.patience.until = time.Now()
}

// Stats are figures of the broker.
type Stats struct {
	Open       int // connections
	Connecting int // those of them that have not sent their CONNECT
}

// Stats returns the figures.
func (s *Server) Stats() (of Stats) {
	of.Open, of.Connecting = s.pool.Count()
	return of
}

// Check judges what a station sends, and returns how many of the bytes pass and why
// the next does not.
func Check(b []byte) (passed int, err error) {
	f := framer{limit: int(DefaultLimits().PacketSize)}
	for {
		size, r := f.next(b[passed:])
		if r != nil {
			return passed, r
		}
		if size == 0 {
			return passed, nil
		}
		passed += size
	}
}

// Decode has the library decode packets.
func Decode(b []byte) error {
	in, version := bytes.NewBuffer(b), byte(0)
	for in.Len() > 0 {
		header, _ := in.ReadByte()
		size, _, err := packets.DecodeLength(in)
		if err != nil {
			return err
		}
		body := in.Next(size)
		if version > 0 {
			err = decode(new(packets.Packet), version, header, body)
		} else {
			version, err = decodeConnect(body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeConnect(body []byte) (version byte, err error) {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect, Remaining: len(body)}}
	if err := pk.ConnectDecode(body); err != nil {
		return 0, err
	}
	if code := pk.ConnectValidate(); code != packets.CodeSuccess {
		return 0, code
	}
	return pk.ProtocolVersion, nil
}

// DefaultLimits returns the limits of a gateway that is not configured otherwise, with
// times that no slow machine reaches.
func DefaultLimits() Limits {
	return Limits{
		Connections:           4096,
		ConnectionsPerAddress: 2048,
		ConnectTimeout:        time.Hour,
		PacketsPerSecond:      50,
		WriteTimeout:          time.Hour,
		PacketSize:            8 << 10,
	}
}

// Filled returns a configuration with defaults in the place of what is left out.
func (c Config) Filled() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metric.New()
	}
	if c.Handshakes == nil {
		c.Handshakes = admission.NewHandshakes(1, time.Hour)
	}
	l, d := &c.Limits, DefaultLimits()
	l.Connections = cmp.Or(l.Connections, d.Connections)
	l.ConnectionsPerAddress = cmp.Or(l.ConnectionsPerAddress, d.ConnectionsPerAddress)
	l.ConnectTimeout = cmp.Or(l.ConnectTimeout, d.ConnectTimeout)
	l.PacketsPerSecond = cmp.Or(l.PacketsPerSecond, d.PacketsPerSecond)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, d.WriteTimeout)
	l.PacketSize = cmp.Or(l.PacketSize, d.PacketSize)
	return c
}
