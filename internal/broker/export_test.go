package broker

import "github.com/mochi-mqtt/server/v2/packets"

// SendByLibrary writes a command as the library would, for comparison.
func (c *Conn) SendByLibrary(packetID uint16, payload []byte) error {
	return c.client.WritePacket(packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
		TopicName:   c.topics.command,
		PacketID:    packetID,
		Payload:     payload,
	})
}
