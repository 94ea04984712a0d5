package broker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestServer_connect(t *testing.T) {
	g := open(t, setup{})
	c := g.dial()
	if body := c.connect(2, 4); !bytes.Equal(body, []byte{0, 0}) {
		t.Errorf("CONNACK %x", body)
	}
	if e := g.handler.awaitEvent(t, "connected", 1); e.conn.Station() != 2 {
		t.Errorf("station %d connected", e.conn.Station())
	}
	c.send([]byte{0xE0, 0})
	c.expectEnd()
	if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "disconnected" {
		t.Errorf("reason %q", e.text)
	}
}

// connack5 reads the properties of an MQTT 5 CONNACK.
func connack5(t *testing.T, body []byte) map[byte]uint32 {
	t.Helper()
	found := make(map[byte]uint32)
	for p := body[3:]; len(p) > 0; {
		switch id := p[0]; id {
		case 0x24, 0x25, 0x28, 0x29, 0x2A:
			found[id], p = uint32(p[1]), p[2:]
		case 0x13, 0x21:
			found[id], p = uint32(binary.BigEndian.Uint16(p[1:])), p[3:]
		case 0x11, 0x27:
			found[id], p = binary.BigEndian.Uint32(p[1:]), p[5:]
		default:
			t.Fatalf("property %#x in CONNACK %x", id, body)
		}
	}
	return found
}

// A station of MQTT 5 is told what is not offered.
func TestServer_connect_tellsLimits(t *testing.T) {
	g := open(t, setup{})
	h := helloOf(1, 5)
	h.flags &^= 0x02                                           // the old session, please
	h.properties = []byte{0x11, 0, 0, 0x0E, 0x10, 0x22, 0, 10} // and keep it for an hour; 10 topic aliases
	body := g.dial().greet(h)
	want := map[byte]uint32{
		0x11: 0,       // Session Expiry Interval
		0x21: 32,      // Receive Maximum
		0x24: 1,       // Maximum QoS
		0x25: 0,       // Retain Available
		0x27: 8 << 10, // Maximum Packet Size
		0x28: 0,       // Wildcard Subscription Available
		0x29: 0,       // Subscription Identifiers Available
		0x2A: 0,       // Shared Subscription Available
	}
	got := connack5(t, body)
	for id, value := range want {
		if v, ok := got[id]; !ok || v != value {
			t.Errorf("property %#x is %d, %v; want %d", id, v, ok, value)
		}
	}
	if len(got) != len(want) || body[0] != 0 {
		t.Errorf("CONNACK %x", body)
	}
}

func TestServer_connect_refused(t *testing.T) {
	const id = site.StationID(1042)
	will := join(text("stations/1042/report"), text("bye"))
	cases := map[string]struct {
		bend   func(*hello)
		v3, v5 byte // of the CONNACK
		reason string
	}{
		"wrong secret":           {func(h *hello) { h.secret += "x" }, 4, 0x86, "mqtt-secret"},
		"another's secret":       {func(h *hello) { h.secret = secretOf(1) }, 4, 0x86, "mqtt-secret"},
		"no user and password":   {func(h *hello) { h.flags = 0x02 }, 4, 0x86, "mqtt-anonymous"},
		"no password":            {func(h *hello) { h.flags = 0x82 }, 4, 0x86, "mqtt-anonymous"},
		"foreign client id":      {func(h *hello) { h.clientID = "station-1" }, 5, 0x87, "mqtt-client-id"},
		"empty client id":        {func(h *hello) { h.clientID = "" }, 5, 0x87, "mqtt-client-id"},
		"foreign user":           {func(h *hello) { h.user = "station-1" }, 5, 0x87, "mqtt-client-id"},
		"no station":             {func(h *hello) { h.clientID, h.user = "admin", "admin" }, 5, 0x87, "mqtt-client-id"},
		"station id with a zero": {func(h *hello) { h.clientID, h.user = "station-01042", "station-01042" }, 5, 0x87, "mqtt-client-id"},
		"station 0":              {func(h *hello) { h.clientID, h.user = "station-0", "station-0" }, 5, 0x87, "mqtt-client-id"},
		"wildcard id":            {func(h *hello) { h.clientID, h.user = "station-+", "station-+" }, 5, 0x87, "mqtt-client-id"},
		"will":                   {func(h *hello) { h.flags |= 0x04; h.will = will }, 5, 0x87, "mqtt-will"},
		"retained will":          {func(h *hello) { h.flags |= 0x24; h.will = will }, 5, 0x87, "mqtt-will"},
		"will at QoS 2":          {func(h *hello) { h.flags |= 0x14; h.will = will }, 5, 0x87, "mqtt-will"},
		"authentication method":  {func(h *hello) { h.properties = append([]byte{0x15}, text("SCRAM")...) }, 0, 0x8C, "mqtt-auth-method"},
	}
	for name, test := range cases {
		for version, code := range map[byte]byte{4: test.v3, 5: test.v5} {
			if code == 0 {
				continue
			}
			g := open(t, setup{})
			h := helloOf(id, version)
			test.bend(&h)
			if h.will != nil && version == 5 {
				h.will = append([]byte{0}, h.will...)
			}
			c := g.dial()
			c.send(h.bytes())
			packets := c.expectEnd()
			if len(packets) != 1 || packets[0][0] != 0x20 || packets[0][1] != 0 || packets[0][2] != code {
				t.Errorf("%s, MQTT %d: answered %x, want code %#x", name, version, packets, code)
			}
			if n := g.refusals(test.reason); n != "1" {
				t.Errorf("%s, MQTT %d: counted %s times as %s", name, version, n, test.reason)
			}
			if len(g.handler.all("connected")) != 0 {
				t.Errorf("%s, MQTT %d: connected", name, version)
			}
			g.wellServed()
		}
	}
}

// A station that takes no packet as large as a command is refused, and told so where
// it takes that; so nobody believes it online while no command can reach it.
func TestServer_connect_tooSmall(t *testing.T) {
	g := open(t, setup{})
	largest := packet(0x32, text(commandTopic(1)), u16(1), properties(5), make([]byte, stationlink.MaxCommand))
	for size, want := range map[int][][]byte{
		len(largest) - 1: {{0x20, 0, 0x95, 0}},
		5:                {{0x20, 0, 0x95, 0}},
		4:                nil,
	} {
		h := helloOf(1, 5)
		h.properties = []byte{0x27, 0, 0, 0, byte(size)}
		c := g.dial()
		c.send(h.bytes())
		if got := c.expectEnd(); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("Maximum Packet Size %d: answered %x, want %x", size, got, want)
		}
		events := g.handler.all("too small")
		if got, want := events[len(events)-1].text, fmt.Sprint(site.StationID(1), size, len(largest)); got != want {
			t.Errorf("the handler heard %q, want %q", got, want)
		}
	}
	h := helloOf(1, 5)
	h.properties, h.secret = []byte{0x27, 0, 0, 0, 9}, "wrong"
	c := g.dial()
	c.send(h.bytes())
	if got := c.expectEnd(); len(got) != 1 || got[0][2] != 0x86 {
		t.Errorf("with a wrong secret: answered %x", got)
	}
	if n := len(g.handler.all("too small")); n != 3 {
		t.Errorf("the handler heard of %d", n)
	}
	h = helloOf(1, 5)
	h.properties = []byte{0x27, 0, 0, 0, byte(len(largest))}
	c = g.dial()
	c.greet(h)
	c.subscribe(1, 1)
	if err := g.connOf(1).Send(1, 1, says(make([]byte, stationlink.MaxCommand)), await.Deadline()); err != nil {
		t.Errorf("the largest command: %v", err)
	}
}

// MQTT 3.1 is too old and MQTT 6 is not known.
func TestServer_connect_otherVersions(t *testing.T) {
	g := open(t, setup{})
	old := packet(0x10, text("MQIsdp"), []byte{3, 0xC2}, u16(60), text("station-1"), text("station-1"), text(secretOf(1)))
	c := g.dial()
	c.send(old)
	if packets := c.expectEnd(); len(packets) != 1 || !bytes.Equal(packets[0], []byte{0x20, 0, 1}) {
		t.Errorf("MQTT 3.1 was answered %x", packets)
	}
	h := helloOf(1, 6)
	c = g.dial()
	c.send(h.bytes())
	for _, p := range c.expectEnd() {
		if p[0] == 0x20 && p[2] == 0 {
			t.Error("MQTT 6 was accepted")
		}
	}
	g.wellServed()
}

// The handler may refuse a station that has just authenticated, for example because
// its secret was replaced meanwhile.
func TestServer_connect_refusedByHandler(t *testing.T) {
	handler := newRecorder()
	handler.refuse = func(c *broker.Conn) error {
		if c.Station() == 1 {
			return errors.New("replaced")
		}
		return nil
	}
	g := open(t, setup{handler: handler})
	c := g.dial()
	c.send(helloOf(1, 4).bytes(), publication(4, 0, "stations/1/report", 0, "{}"))
	c.expectReset()
	g.wellServed()
	for _, e := range append(handler.all("disconnected"), handler.all("report")...) {
		if e.conn.Station() == 1 {
			t.Errorf("the handler hears of the refused station: %+v", e)
		}
	}
}

// pipes is a listener without a network, for tests in a bubble of synctest.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// dial opens a connection; its test deadlines are off, because time is not real.
func (p *pipes) dial(t testing.TB) *client {
	near, far := net.Pipe()
	p.conns <- far
	c := newClient(t, near)
	_ = near.SetDeadline(time.Time{})
	return c
}

// bubble runs a test with a broker in a bubble of synctest.
func bubble(t *testing.T, limits broker.Limits, test func(t *testing.T, g *gate, p *pipes)) {
	t.Helper()
	bubbleWith(t, func() setup { return setup{limits: limits} }, test)
}

// bubbleWith makes the setup in the bubble.
func bubbleWith(t *testing.T, want func() setup, test func(t *testing.T, g *gate, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := want()
		if s.listeners == nil {
			s.listeners = []broker.Listener{{Net: p}}
		}
		g := open(t, s)
		test(t, g, p)
		_ = g.stop()
	})
}

// A silent station is dropped after one and a half keepalives, as clamped; and MQTT
// 5 stations know the clamped one.
func TestServer_keepalive(t *testing.T) {
	cases := map[uint16]time.Duration{
		0: 180 * time.Second, 1: 15 * time.Second, 9: 15 * time.Second, 10: 15 * time.Second, 11: 16500 * time.Millisecond,
		60: 90 * time.Second, 120: 180 * time.Second, 121: 180 * time.Second,
		43691: 180 * time.Second, 43690: 180 * time.Second, 65535: 180 * time.Second, // one and a half of it overflow 16 bits
	}
	for keepalive, want := range cases {
		for _, version := range []byte{4, 5} {
			bubble(t, broker.Limits{}, func(t *testing.T, g *gate, p *pipes) {
				c := p.dial(t)
				h := helloOf(1, version)
				h.keepalive = keepalive
				body := c.greet(h)
				told, isTold := uint32(0), false
				if version == 5 {
					told, isTold = connack5(t, body)[0x13], true
				}
				if clamped := min(max(keepalive, 10), 120); isTold && keepalive != 0 && clamped != keepalive && told != uint32(clamped) {
					t.Errorf("keepalive %d: told %d", keepalive, told)
				}
				if isTold && keepalive == 0 && told != 120 {
					t.Errorf("keepalive 0: told %d", told)
				}
				c.ping()
				start := time.Now()
				c.expectEnd()
				if got := time.Since(start); got != want {
					t.Errorf("keepalive %d, MQTT %d: dropped after %v, want %v", keepalive, version, got, want)
				}
				if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "silent for longer than its keepalive" {
					t.Errorf("reason %q", e.text)
				}
			})
		}
	}
}

// Bytes that complete no packet do not keep a connection alive.
func TestServer_keepalive_trickle(t *testing.T) {
	bubble(t, broker.Limits{}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		h := helloOf(1, 4)
		h.keepalive = 10
		c.greet(h)
		start := time.Now()
		var talking sync.WaitGroup
		talking.Go(func() {
			trickle(c, publication(4, 0, "stations/1/report", 0, string(make([]byte, 100))), time.Second)
		})
		c.expectEnd()
		if got := time.Since(start); got != 15*time.Second {
			t.Errorf("dropped after %v", got)
		}
		talking.Wait()
	})
}

// A CONNECT has to be complete in time, however it comes.
func TestServer_connectTimeout(t *testing.T) {
	whole := helloOf(1, 4).bytes()
	ways := map[string]func(c *client){
		"silent":    func(*client) {},
		"one byte":  func(c *client) { c.try(whole[:1]) },
		"half":      func(c *client) { c.try(whole[:len(whole)/2]) },
		"a trickle": func(c *client) { trickle(c, whole, 200*time.Millisecond) },
		"a length without end": func(c *client) {
			c.try([]byte{0x10, 0x80})
		},
	}
	for name, say := range ways {
		bubble(t, broker.Limits{ConnectTimeout: 5 * time.Second}, func(t *testing.T, g *gate, p *pipes) {
			start := time.Now()
			c := p.dial(t)
			var talking sync.WaitGroup
			talking.Go(func() { say(c) })
			c.expectEnd()
			if got := time.Since(start); got != 5*time.Second {
				t.Errorf("%s: dropped after %v", name, got)
			}
			talking.Wait()
			synctest.Wait()
			if n := g.refusals("mqtt-connect-timeout"); n != "1" {
				t.Errorf("%s: counted %s times", name, n)
			}
			if s := g.server.Stats(); s.Open != 0 || s.Connecting != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		})
	}
}

// trickle says one byte after the other, until nobody listens.
func trickle(c *client, b []byte, pause time.Duration) {
	for _, one := range b {
		if _, err := c.conn.Write([]byte{one}); err != nil {
			return
		}
		time.Sleep(pause) // in the bubble
	}
}

// A slow CONNECT in time is a good one.
func TestServer_connect_slowly(t *testing.T) {
	bubble(t, broker.Limits{ConnectTimeout: 5 * time.Second}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		var talking sync.WaitGroup
		talking.Go(func() { trickle(c, helloOf(1, 4).bytes(), 50*time.Millisecond) })
		if body := c.expect(0x20); body[1] != 0 {
			t.Errorf("CONNACK %x", body)
		}
		talking.Wait()
	})
}
