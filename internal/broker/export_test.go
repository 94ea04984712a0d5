package broker

import (
	"sync/atomic"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Leftovers counts what the library keeps of connections.
func (s *Server) Leftovers() (clients int, subscriptions int64) {
	return s.mochi.Clients.Len(), atomic.LoadInt64(&s.mochi.Info.Subscriptions)
}

// SendByLibrary writes a command as the library would, for comparison.
func (c *Conn) SendByLibrary(packetID uint16, payload []byte) error {
	return c.client.WritePacket(packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
		TopicName:   c.topics.command,
		PacketID:    packetID,
		Payload:     payload,
	})
}
