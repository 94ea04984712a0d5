package broker

import (
	"github.com/mochi-mqtt/server/v2/packets"

	"gatehouse/internal/site"
)

// offer is what a CONNECT asked for and mochi is not shown.
type offer struct {
	expiry           bool // a session that outlives the connection
	keepaliveChanged bool
}

// Bounds of the keepalive in seconds (contract, section 2).
const (
	leastKeepalive = 10
	mostKeepalive  = 120
)

// clampKeepalive gives the keepalive that counts; 0, "none", counts as the longest.
func clampKeepalive(seconds uint16) uint16 {
	if seconds == 0 {
		return mostKeepalive
	}
	return min(max(seconds, leastKeepalive), mostKeepalive)
}

// readConnect takes out of a CONNECT whatever the gateway does not offer, before
// mochi acts on it: from here on there is no old session and none kept. A will has been
// refused before (see checkConnect).
func (c *Conn) readConnect(pk *packets.Packet) {
	c.version.Store(uint32(pk.ProtocolVersion))
	keepalive := clampKeepalive(pk.Connect.Keepalive)
	c.offer = offer{
		expiry:           pk.Properties.SessionExpiryInterval > 0,
		keepaliveChanged: keepalive != pk.Connect.Keepalive,
	}
	c.mostPacket = int(pk.Properties.MaximumPacketSize)
	if most := pk.Properties.ReceiveMaximum; most > 0 {
		c.open = make(chan struct{}, most) // of nothing, so that its size costs nothing
	}
	pk.Connect.Keepalive = keepalive
	pk.Connect.Clean = true
	pk.Properties.SessionExpiryIntervalFlag, pk.Properties.SessionExpiryInterval = false, 0
}

// admit says whether a CONNECT is that of a station: one id, as client id and as
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
	generation, ok := s.authenticator.Authenticate(id, site.Secret(who.Password))
	if !ok {
		return errSecret
	}
	c.generation = generation
	c.topics = topicsOf(id)
	return nil
}
