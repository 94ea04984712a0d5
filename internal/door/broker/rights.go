package broker

import (
	"github.com/mochi-mqtt/server/v2/packets"
)

// nowhere replaces a topic that is refused, where mochi answers the packet. It is the only
// one that OnACLCheck refuses.
const nowhere = "-"

// mostFilters bounds the topics of one SUBSCRIBE or UNSUBSCRIBE: a station has one
// to name.
const mostFilters = 8

// judge returns what is wrong with a packet, and changes it so that mochi can act on
// it: what is refused but does not end the connection names nowhere instead. This is the
// one place where the rights of a station are checked.
func (c *Conn) judge(pk *packets.Packet) *refusal {
	if len(pk.Filters) > mostFilters {
		return errSubscribe
	}
	switch pk.FixedHeader.Type {
	case typePublish:
		return c.judgePublish(pk)
	case typeSubscribe:
		c.judgeSubscribe(pk)
	case typeUnsubscribe:
		c.judgeUnsubscribe(pk)
	case typePuback:
		c.server.cfg.Handler.Acknowledged(c, pk.PacketID, pk.ReasonCode)
	}
	return nil
}

// judgePublish lets the station's own report and result pass. In MQTT 5 a foreign
// topic at QoS 1 is answered by a PUBACK; every other breach ends the connection.
func (c *Conn) judgePublish(pk *packets.Packet) *refusal {
	switch {
	case pk.FixedHeader.Qos > 1:
		return errQoS
	case pk.FixedHeader.Retain:
		return errRetain
	case c.topics.MayPublish(pk.TopicName):
		return nil
	case c.Version() != 5 || pk.FixedHeader.Qos == 0:
		return errTopic
	}
	c.server.note(c, errTopic)
	pk.TopicName = nowhere
	return nil
}

// judgeSubscribe lets the station's own command topic pass. Other filters are answered
// by SUBACK.
func (c *Conn) judgeSubscribe(pk *packets.Packet) {
	pk.Properties.User = nil // mochi answers with them
	foreign := false
	for i := range pk.Filters {
		f := &pk.Filters[i]
		if f.Filter != c.topics.Command || f.NoLocal || len(pk.Properties.SubscriptionIdentifier) > 0 {
			*f, foreign = packets.Subscription{Filter: nowhere}, true
		}
		f.RetainHandling = 2 // no search for what is never retained; it takes 16 kB of stack
	}
	if foreign {
		c.server.note(c, errSubscribe)
	}
}

// judgeUnsubscribe ends the subscription to commands before UNSUBACK is written.
func (c *Conn) judgeUnsubscribe(pk *packets.Packet) {
	pk.Properties.User = nil // mochi answers with them
	for i := range pk.Filters {
		if pk.Filters[i].Filter == c.topics.Command {
			c.granted.Store(0)
		} else {
			pk.Filters[i].Filter = nowhere
		}
	}
}
