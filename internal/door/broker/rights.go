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
	switch pk.FixedHeader.Type {
	case typePublish:
		return c.judgePublish(pk)
	case typeSubscribe:
		return c.judgeSubscribe(pk)
	case typeUnsubscribe:
		return c.judgeUnsubscribe(pk)
	case typePuback:
		c.server.cfg.Handler.Acknowledged(c, pk.PacketID, pk.ReasonCode)
	}
	return nil
}

// judgePublish lets the station's own report and result pass. In MQTT 5 a foreign
// topic at QoS 1 is answered by a PUBACK; every other breach ends the connection.
func (c *Conn) judgePublish(pk *packets.Packet) *refusal {
	r := c.breach(pk)
	answerable := c.Version() == 5 && pk.FixedHeader.Qos == 1 && r == errTopic
	if r == nil || !answerable {
		return r
	}
	c.server.note(c, r)
	pk.TopicName = nowhere
	return nil
}

// breach returns which right of publishing a packet breaks.
func (c *Conn) breach(pk *packets.Packet) *refusal {
	switch {
	case pk.FixedHeader.Qos > 1:
		return errQoS
	case pk.FixedHeader.Retain:
		return errRetain
	case !c.topics.MayPublish(pk.TopicName):
		return errTopic
	}
	return nil
}

// judgeSubscribe lets the station's own command topic pass, at QoS 1 at most. Other
// filters are answered by SUBACK.
func (c *Conn) judgeSubscribe(pk *packets.Packet) *refusal {
	if len(pk.Filters) > mostFilters {
		return errSubscribe
	}
	pk.Properties.User = nil // mochi answers with them
	foreign := false
	for i := range pk.Filters {
		f := &pk.Filters[i]
		if f.Filter != c.topics.Command || f.NoLocal || len(pk.Properties.SubscriptionIdentifier) > 0 {
			*f, foreign = packets.Subscription{Filter: nowhere}, true
		}
		f.Qos = min(f.Qos, 1)
		f.RetainHandling = 2 // no search for what is never retained; it takes 16 kB of stack
	}
	if foreign {
		c.server.note(c, errSubscribe)
	}
	return nil
}

// judgeUnsubscribe ends the subscription to commands before UNSUBACK is written.
func (c *Conn) judgeUnsubscribe(pk *packets.Packet) *refusal {
	if len(pk.Filters) > mostFilters {
		return errSubscribe
	}
	pk.Properties.User = nil // mochi answers with them
	for i := range pk.Filters {
		if pk.Filters[i].Filter == c.topics.Command {
			c.granted.Store(0)
		} else {
			pk.Filters[i].Filter = nowhere
		}
	}
	return nil
}
