package broker

import (
	"strconv"
	"sync/atomic"

	"github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"gatehouse/internal/limit"
)

// hook is the one hook in mochi: it allows what is listed here and nothing else.
// Each method runs in the goroutine that serves the connection.
type hook struct {
	mqtt.HookBase
	server *Server
	last   atomic.Uint64 // number of the connection that was established last
}

// ID implements [mqtt.Hook].
func (*hook) ID() string { return "gatehouse" }

// Provides implements [mqtt.Hook].
func (*hook) Provides(method byte) bool {
	switch method {
	case mqtt.OnPacketRead, mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablish, mqtt.OnSessionEstablished, mqtt.OnPacketEncode:
		return true
	}
	return false
}

// connOf returns our side of mochi's client.
func connOf(cl *mqtt.Client) *Conn { return cl.Net.Conn.(*wire).c }

// OnPacketRead implements [mqtt.Hook]. It sees the CONNECT decoded, before mochi acts on it.
func (*hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	connOf(cl).readConnect(cl, &pk)
	return pk, nil
}

// OnConnect implements [mqtt.Hook]: it admits a station or answers why not.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	c := connOf(cl)
	if r := h.server.admit(c, &pk); r != nil {
		return c.refuse(r, r.connack(c.Version()))
	}
	cl.Net.Conn.(*wire).client = cl
	// mochi knows each connection under an id of its own, so that its own take-over,
	// which races with itself, never has anything to take over.
	cl.ID += "/" + strconv.FormatUint(h.last.Add(1), 10)
	c.slot.Move(limit.Working)
	return nil
}

// OnConnectAuthenticate implements [mqtt.Hook]: OnConnect has answered already.
func (*hook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

// OnSessionEstablish implements [mqtt.Hook]: the station's connection before this
// one ends, before this one is acknowledged.
func (h *hook) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	h.server.seats.take(connOf(cl), (*Conn).replace)
}

// OnSessionEstablished implements [mqtt.Hook]: CONNACK has been written.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	c := connOf(cl)
	c.seat.order.Lock()
	defer c.seat.order.Unlock()
	if c.seat.taker.Load() != c || c.Ended() {
		return
	}
	if err := h.server.cfg.Handler.Connected(c); err != nil {
		h.server.ledger.Warn("station refused", "reason", reasonRefused, "error", err, "remote", c.remote, "station", int64(c.Station()))
		h.server.cfg.Metrics.Refused("mqtt-handler")
		c.Reset(reasonRefused)
		return
	}
	c.announced, c.seat.shown = true, c
}

// OnPacketEncode implements [mqtt.Hook]: MQTT 5 stations learn from CONNACK what is
// not offered (section 3.2.2.3).
func (*hook) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	if pk.ReasonCode != packets.CodeSuccess.Code {
		return pk
	}
	c, p := connOf(cl), &pk.Properties
	p.RetainAvailableFlag, p.RetainAvailable = true, 0
	p.WildcardSubAvailableFlag, p.WildcardSubAvailable = true, 0
	p.SubIDAvailableFlag, p.SubIDAvailable = true, 0
	p.SharedSubAvailableFlag, p.SharedSubAvailable = true, 0
	p.MaximumPacketSize = c.server.cfg.Limits.PacketSize
	return pk
}
