package broker

import (
	"cmp"
	"time"

	"github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/site"
)

// Bounds of the keepalive in seconds (contract, section 2); 0, "none", counts as the
// longest.
const (
	leastKeepalive = 10
	mostKeepalive  = 120
)

// readConnect takes out of a CONNECT what the gateway does not offer, before mochi acts
// on it: from here on there is no old session. None is kept either, because mochi may keep
// it for 0 s, and a will has been refused before (see checkConnect).
func (c *Conn) readConnect(cl *mqtt.Client, pk *packets.Packet) {
	keepalive := min(max(cmp.Or(pk.Connect.Keepalive, mostKeepalive), leastKeepalive), mostKeepalive)
	cl.State.ServerKeepalive = keepalive != pk.Connect.Keepalive
	pk.Connect.Keepalive = keepalive
	c.keepalive = time.Duration(keepalive) * time.Second
	pk.Connect.Clean = true
	c.mostPacket = pk.Properties.MaximumPacketSize
	c.receiveMaximum = pk.Properties.ReceiveMaximum
	c.version.Store(uint32(pk.ProtocolVersion)) // a farewell that finds it finds mostPacket too
}

// admit returns why a CONNECT is not that of a station: one id, as client id and as
// user name, and its secret.
func (s *Server) admit(c *Conn, pk *packets.Packet) *refusal {
	who := &pk.Connect
	id, err := site.ParseClientID(string(who.Username))
	switch {
	case !who.UsernameFlag || !who.PasswordFlag:
		return errAnonymous
	case err != nil || who.ClientIdentifier != string(who.Username):
		return errClientID
	}
	c.station.Store(int64(id))
	generation, ok := s.cfg.Authenticator.Authenticate(id, site.Secret(who.Password))
	if !ok {
		return errSecret
	}
	c.generation = generation
	c.topics = stationlink.TopicsOf(id)
	if need := commandSize(c.topics.Command); c.mostPacket > 0 && c.mostPacket < need {
		s.cfg.Handler.TooSmall(id, c.mostPacket, need)
		return errTooSmall
	}
	return nil
}

// commandSize is the size of the largest command, as MQTT 5 encodes it at QoS 1.
func commandSize(topic string) uint32 {
	body := 2 + uint32(len(topic)) + 2 + 1 + stationlink.MaxCommand //nolint:gosec // the topic of a station is short
	for length := body; length > 0x7F; length >>= 7 {
		body++
	}
	return 1 + 1 + body
}
