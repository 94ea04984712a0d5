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

// Stats are figures of the broker since its start, and of the moment. Bytes are
// those of MQTT; of TLS and TCP nothing is counted.
type Stats struct {
	Open       int // connections
	Connecting int // those of them that have not sent their CONNECT
	PacketsIn  uint64
	PacketsOut uint64
	BytesIn    uint64
	BytesOut   uint64
}

// Stats gives the figures.
func (s *Server) Stats() Stats {
	return Stats{
		Open: s.crowd.count(), Connecting: s.crowd.waiting(),
		PacketsIn: s.stats.packetsIn.Load(), PacketsOut: s.stats.packetsOut.Load(),
		BytesIn: s.stats.bytesIn.Load(), BytesOut: s.stats.bytesOut.Load(),
	}
}
