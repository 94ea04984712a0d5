package broker

import (
	"encoding/binary"

	"github.com/mochi-mqtt/server/v2/packets"
)

// mostFilters bounds the topics of one SUBSCRIBE or UNSUBSCRIBE: a station has one
// to name.
const mostFilters = 8

// publish takes the station's own reports and results. In MQTT 5 a foreign topic at QoS 1
// is answered by a PUBACK; every other breach ends the connection.
func (c *Conn) publish(pk *packets.Packet) error {
	qos, code := pk.FixedHeader.Qos, []byte(nil)
	switch {
	case qos > 1:
		return c.breach(errQoS)
	case pk.FixedHeader.Retain:
		return c.breach(errRetain)
	case c.topics.MayPublish(pk.TopicName):
		c.server.cfg.Handler.Received(c, pk.TopicName, pk.Payload, pk.FixedHeader.Dup)
	case c.Version() != 5 || qos == 0:
		return c.breach(errTopic)
	default:
		c.server.note(c, errTopic)
		code = []byte{codeNotAuthorized}
	}
	if qos == 0 {
		return nil
	}
	return c.answer(typePuback, pk.PacketID, code...)
}

// subscribe takes the subscription to the station's own commands. Other filters are refused
// in SUBACK. A station that has that can count on commands.
func (c *Conn) subscribe(pk *packets.Packet) error {
	refused, rest := byte(v3Refused), []byte(nil)
	if c.Version() == 5 {
		refused, rest = codeNotAuthorized, []byte{0} // no properties
	}
	foreign := false
	for _, f := range pk.Filters {
		if f.Filter != c.topics.Command || f.NoLocal || len(pk.Properties.SubscriptionIdentifier) > 0 {
			foreign, rest = true, append(rest, refused)
			continue
		}
		qos := min(f.Qos, 1)
		rest = append(rest, qos)
		c.granted.Store(int32(qos) + 1)
	}
	if foreign {
		c.server.note(c, errSubscribe)
	}
	return c.answer(typeSuback, pk.PacketID, rest...)
}

// unsubscribe ends the subscription to commands before UNSUBACK is written.
func (c *Conn) unsubscribe(pk *packets.Packet) error {
	rest := []byte{0} // no properties
	for _, f := range pk.Filters {
		code := byte(codeNoSubscription)
		if f.Filter == c.topics.Command && c.granted.Swap(0) > 0 {
			code = 0
		}
		rest = append(rest, code)
	}
	if c.Version() != 5 {
		rest = nil
	}
	return c.answer(typeUnsuback, pk.PacketID, rest...)
}

// breach ends the connection for r.
func (c *Conn) breach(r *refusal) error {
	return c.refuse(r, disconnect(c.Version(), r.code))
}

// answer writes the packet that acknowledges one of the station's; rest is short.
func (c *Conn) answer(kind byte, packetID uint16, rest ...byte) error {
	packet := []byte{kind << 4, byte(2 + len(rest))}
	packet = binary.BigEndian.AppendUint16(packet, packetID)
	return c.write(append(packet, rest...))
}
