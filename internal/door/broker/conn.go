package broker

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"golang.org/x/time/rate"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// Conn is the live connection of one station. Its methods are safe for concurrent
// use, also after its end.
type Conn struct {
	server *Server
	raw    net.Conn        // as accepted; closing it with linger 0 is the reset
	socket socket          // of raw
	stream net.Conn        // raw, or the TLS session on it
	gated  *admission.Conn // between the two; nil without TLS
	remote string
	slot   limit.Slot

	// Known from CONNECT on.
	station    atomic.Int64
	version    atomic.Uint32
	generation uint64
	number     site.ConnectionID // in the order of the take-overs
	topics     stationlink.Topics

	// What MQTT 5 stations state; 0: not stated.
	mostPacket     uint32 // in bytes
	receiveMaximum uint16

	// The reading goroutine's own.
	frames    framer
	pace      *rate.Limiter
	buffer    [512]byte
	held      []byte // was read and not handed on
	keepalive time.Duration
	slowed    bool  // a packet had to wait; the log knows
	seat      *seat // held from the authenticated CONNECT on
	announced bool  // the handler took it in Connected

	granted atomic.Int32 // 0: not subscribed; else the granted QoS, plus one
	credit  atomic.Int32 // answers that are due to commands; they are not paced

	// writing holds a token while a packet is written, so that packets never mix
	// and no waiter passes its deadline. It guards loaded: whether a command
	// may be among the bytes that the station's kernel has not acknowledged; and
	// patience.
	writing  chan struct{}
	loaded   bool
	patience patience

	replaced atomic.Bool // another connection of the station takes its place

	ended  atomic.Bool
	reason string        // of the end; set before done is closed, and then constant
	done   chan struct{} // closed at the end
}

// newConn wraps an accepted connection.
func (s *Server) newConn(raw net.Conn, secure *tls.Config) *Conn {
	c := &Conn{
		server: s, raw: raw, stream: raw, remote: raw.RemoteAddr().String(),
		pace:    rate.NewLimiter(rate.Limit(s.cfg.Limits.PacketsPerSecond), max(1, int(4*s.cfg.Limits.PacketsPerSecond))),
		writing: make(chan struct{}, 1),
		socket:  socketOf(raw),
		done:    make(chan struct{}),
		frames:  framer{limit: int(s.cfg.Limits.PacketSize)},
	}
	c.patience.socket = c.socket
	if secure != nil {
		c.gated = s.cfg.Handshakes.Conn(raw)
		c.stream = tls.Server(c.gated, secure)
	}
	return c
}

// Station names the station.
func (c *Conn) Station() site.StationID { return site.StationID(c.station.Load()) }

// Generation is that of the secret under which the station authenticated.
func (c *Conn) Generation() uint64 { return c.generation }

// Number identifies this connection within the server. Of two connections of one
// station, the one that took over has the greater number.
func (c *Conn) Number() site.ConnectionID { return c.number }

// Remote is the address of the station, with its port.
func (c *Conn) Remote() string { return c.remote }

// Version is 4 for MQTT 3.1.1 and 5 for MQTT 5.
func (c *Conn) Version() byte { return byte(c.version.Load()) }

// ReceiveMaximum is how many commands at QoS 1 the station takes before it has
// acknowledged one of them (MQTT 5, section 3.1.2.11.3); 0 when it has not said so.
func (c *Conn) ReceiveMaximum() int { return int(c.receiveMaximum) }

// Subscribed reports at which QoS (0 or 1) the station is subscribed to its
// commands now; a connection that has ended is subscribed to nothing.
func (c *Conn) Subscribed() (qos byte, ok bool) {
	granted := c.granted.Load()
	return byte(max(granted-1, 0)), granted > 0 && !c.Ended()
}

// Reset ends the connection at once, in a TCP reset: whatever the station's kernel
// has not acknowledged will never arrive. It never waits, not even while another
// goroutine is blocked in a write. On a connection that has ended it does nothing.
// The reason goes to [Handler.Disconnected].
func (c *Conn) Reset(reason string) {
	c.finish(reason)
	c.cut()
}

// finish marks the end; false when it was marked before.
func (c *Conn) finish(reason string) bool {
	if !c.ended.CompareAndSwap(false, true) {
		return false
	}
	c.reason = reason
	close(c.done)
	if c.gated != nil {
		c.gated.Withdraw()
	}
	return true
}

// end closes the connection, with a last packet where one is given and without a
// reset; unless a command may be on its way, which the kernel would still deliver
// some time.
func (c *Conn) end(reason string, farewell []byte) {
	if c.lock(farewellTimeout) != nil { // a write is stuck
		c.Reset(reason)
		return
	}
	defer c.unlock()
	if !c.finish(reason) {
		return
	}
	pending := c.socket.unsent()
	if c.loaded && pending {
		c.cut()
		return
	}
	if farewell != nil {
		c.say(farewell)
	}
	c.socket.linger(lingerSystem)
	if pending { // TLS might wait to say its own farewell
		_ = c.raw.Close()
		return
	}
	_ = c.stream.Close()
}

// restTimeout bounds how long a new connection waits until what its station has sent over the
// one before is read.
const restTimeout = time.Second

// replace ends the connection because another one takes its place, once it has read what the
// kernel has of it: a station may answer a command, and connect again at once.
func (c *Conn) replace() {
	c.replaced.Store(true)
	if c.socket.endReading() {
		timer := time.NewTimer(restTimeout)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
		}
	}
	c.endReplaced()
}

func (c *Conn) endReplaced() { c.end(reasonTakenOver, disconnect(c.Version(), codeTakenOver)) }

// farewellTimeout bounds the turn of the last packet to be written, and its
// writing. Neither takes any time, except where a station does not read.
const farewellTimeout = 100 * time.Millisecond

// say writes a last packet; the lock is held.
func (c *Conn) say(farewell []byte) {
	if c.mostPacket > 0 && len(farewell) > int(c.mostPacket) { // MQTT-3.1.2-24
		return
	}
	_ = c.stream.SetWriteDeadline(time.Now().Add(farewellTimeout))
	_, _ = c.stream.Write(farewell)
}

// cut closes the raw connection; it lingers for 0 s since it was accepted, so that
// the kernel answers with a reset.
func (c *Conn) cut() {
	c.socket.linger(lingerReset)
	_ = c.raw.Close()
}

// Ended reports whether the connection has ended.
func (c *Conn) Ended() bool { return c.ended.Load() }

// refuse ends the connection for r and answers the station. It returns r.
func (c *Conn) refuse(r *refusal, answer []byte) *refusal {
	c.server.note(c, r)
	c.end(r.reason, answer)
	return r
}

// converse acts on what the station sends until one of both ends it. Silence is bounded by
// its keepalive (MQTT-3.1.2-22).
func (c *Conn) converse() error {
	for {
		if err := c.raw.SetReadDeadline(time.Now().Add(c.keepalive * 3 / 2)); err != nil {
			return err
		}
		packet, err := c.next()
		if err != nil || c.Ended() {
			return err
		}
		c.server.cfg.Handler.Heard(c)
		if packet[0]>>4 == typeDisconnect {
			return nil
		}
		if err := c.receive(packet); err != nil {
			return err
		}
	}
}

// next returns the next packet, once it is whole and may be sent. While it has to wait,
// nothing is read, so that TCP makes the station wait too.
func (c *Conn) next() ([]byte, error) {
	for {
		size, r := c.frames.next(c.held)
		if r != nil {
			return nil, c.refuse(r, c.frames.answer(r))
		}
		if size > 0 {
			packet := c.held[:size]
			if c.held = c.held[size:]; len(c.held) == 0 {
				c.held = nil // an idle station keeps no packet
			}
			return packet, c.keepPace()
		}
		n, err := c.stream.Read(c.buffer[:])
		if c.held = append(c.held, c.buffer[:n]...); n == 0 {
			return nil, err // else it comes again
		}
	}
}

// receive acts on a packet that the framer has passed. This is the one place where the
// rights of a station are checked.
func (c *Conn) receive(packet []byte) error {
	_, digits := binary.Uvarint(packet[1:])
	var pk packets.Packet // large: it does not leave the stack
	switch err := decode(&pk, c.Version(), packet[0], packet[1+digits:]); {
	case err != nil:
		return err
	case len(pk.Filters) > mostFilters:
		return c.breach(errSubscribe)
	}
	switch pk.FixedHeader.Type {
	case typePublish:
		return c.publish(&pk)
	case typePuback:
		c.server.cfg.Handler.Acknowledged(c, pk.PacketID, pk.ReasonCode)
	case typeSubscribe:
		return c.subscribe(&pk)
	case typeUnsubscribe:
		return c.unsubscribe(&pk)
	case typePingreq:
		return c.write([]byte{typePingresp << 4, 0})
	}
	return nil
}

// decode has mochi decode a packet that follows the CONNECT.
func decode(pk *packets.Packet, version, header byte, body []byte) error {
	pk.ProtocolVersion = version
	if err := pk.FixedHeader.Decode(header); err != nil {
		return err
	}
	pk.FixedHeader.Remaining = len(body)
	switch pk.FixedHeader.Type {
	case typePublish:
		return pk.PublishDecode(body)
	case typePuback:
		return pk.PubackDecode(body)
	case typeSubscribe:
		return pk.SubscribeDecode(body)
	case typeUnsubscribe:
		return pk.UnsubscribeDecode(body)
	}
	return nil
}

// keepPace waits until the station may send one more packet, or the connection ends. An
// answer to a command may come at once.
func (c *Conn) keepPace() error {
	for credit := c.credit.Load(); credit > 0; credit = c.credit.Load() {
		if c.credit.CompareAndSwap(credit, credit-1) {
			return nil
		}
	}
	now := time.Now()
	wait := c.pace.ReserveN(now, 1).DelayFrom(now)
	if wait == 0 {
		return nil
	}
	c.server.cfg.Metrics.Counter("gatehouse_mqtt_slowed_total").Inc()
	if !c.slowed {
		c.slowed = true
		c.server.ledger.Warn("station sends too fast and is slowed", "remote", c.remote, "station", int64(c.Station()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.done:
		return net.ErrClosed
	}
}
