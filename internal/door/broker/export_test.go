package broker

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/metric"
)

// Leftovers counts what the library keeps of connections.
func (s *Server) Leftovers() (clients int, subscriptions int64) {
	return s.mochi.Clients.Len(), atomic.LoadInt64(&s.mochi.Info.Subscriptions)
}

// WelcomeEvicted serves a connection that is evicted before its handshake.
func (s *Server) WelcomeEvicted(raw net.Conn, secure *tls.Config) {
	c := s.newConn(raw, secure)
	c.Reset(errCrowded.reason)
	s.conns.Go(func() { s.serve(c) })
}

// Expire lets the time of the commands in flight be over.
func (c *Conn) Expire() {
	c.writing <- struct{}{}
	defer c.unlock()
	c.patience.until = time.Now()
}

// SendByLibrary writes a command as the library would, for comparison.
func (c *Conn) SendByLibrary(packetID uint16, payload []byte) error {
	return c.client.WritePacket(packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
		TopicName:   c.topics.Command,
		PacketID:    packetID,
		Payload:     payload,
	})
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
		pk := packets.Packet{ProtocolVersion: version}
		header, _ := in.ReadByte()
		if err := pk.FixedHeader.Decode(header); err != nil {
			return err
		}
		size, _, err := packets.DecodeLength(in)
		if err != nil {
			return err
		}
		pk.FixedHeader.Remaining = size
		if err := decode(&pk, in.Next(size)); err != nil {
			return err
		}
		version = pk.ProtocolVersion
	}
	return nil
}

func decode(pk *packets.Packet, body []byte) error {
	switch pk.FixedHeader.Type {
	case packets.Connect:
		if err := pk.ConnectDecode(body); err != nil {
			return err
		}
		if code := pk.ConnectValidate(); code != packets.CodeSuccess {
			return code
		}
		return nil
	case packets.Publish:
		return pk.PublishDecode(body)
	case packets.Puback:
		return pk.PubackDecode(body)
	case packets.Subscribe:
		return pk.SubscribeDecode(body)
	case packets.Unsubscribe:
		return pk.UnsubscribeDecode(body)
	case packets.Disconnect:
		return pk.DisconnectDecode(body)
	}
	return nil
}

// DefaultLimits returns the limits of a gateway that is not configured otherwise, with
// times that no slow machine reaches.
func DefaultLimits() Limits {
	return Limits{
		Connections:           4096,
		ConnectionsPerAddress: 2048,
		Connecting:            1024,
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
	l.Connecting = cmp.Or(l.Connecting, d.Connecting)
	l.ConnectTimeout = cmp.Or(l.ConnectTimeout, d.ConnectTimeout)
	l.PacketsPerSecond = cmp.Or(l.PacketsPerSecond, d.PacketsPerSecond)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, d.WriteTimeout)
	l.PacketSize = cmp.Or(l.PacketSize, d.PacketSize)
	return c
}
