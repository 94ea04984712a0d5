package broker

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Leftovers counts what the library keeps of connections.
func (s *Server) Leftovers() (clients int, subscriptions int64) {
	return s.mochi.Clients.Len(), atomic.LoadInt64(&s.mochi.Info.Subscriptions)
}

// WelcomeEvicted serves a connection that is evicted between its turn and its handshake.
// It returns false while the client has sent nothing.
func (s *Server) WelcomeEvicted(raw net.Conn, secure *tls.Config) bool {
	c := s.newConn(raw, secure)
	return c.gated.Queue(func(turn bool) {
		s.conns.Add(1)
		c.Reset(errCrowded.reason)
		s.proceed(c, turn)
	})
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
	of.Open, of.Connecting = s.crowd.Count()
	return of
}

// Check judges what a station sends, and returns how many of the bytes pass and why
// the next does not.
func Check(b []byte) (passed int, err error) {
	f := framer{limit: int(DefaultLimits().PacketSize), allow: func() bool { return true }}
	passed, r := f.scan(b)
	if r != nil {
		return passed, r
	}
	return passed, nil
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
