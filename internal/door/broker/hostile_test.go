package broker_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/test/await"
)

// hostileFirst are first bytes of a connection that no station sends.
func hostileFirst() map[string][]byte {
	good := helloOf(1, 4).bytes()
	bad := make(map[string][]byte)
	for kind := byte(0); kind <= 15; kind++ {
		if kind != 1 {
			bad["first packet "+string("0123456789ABCDEF"[kind])] = []byte{kind<<4 | 2, 2, 0, 1}
		}
	}
	bad["CONNECT with header flags"] = append([]byte{0x1F}, good[1:]...)
	bad["CONNECT with reserved flag"] = func() []byte { h := helloOf(1, 4); h.flags |= 1; return h.bytes() }()
	bad["CONNECT of 256 MB"] = []byte{0x10, 0xFF, 0xFF, 0xFF, 0x7F}
	bad["CONNECT with a length without end"] = append([]byte{0x10}, bytes.Repeat([]byte{0x80}, 1000)...)
	bad["CONNECT of nothing"] = []byte{0x10, 0}
	bad["CONNECT with a short protocol name"] = packet(0x10, []byte{0, 9, 'M', 'Q'})
	bad["CONNECT of another protocol"] = packet(0x10, text("AMQP"), []byte{4, 0xC2}, u16(60), text("station-1"), text("station-1"), text(secretOf(1)))
	bad["CONNECT cut in the client id"] = packet(0x10, text("MQTT"), []byte{4, 0xC2}, u16(60), []byte{0, 9, 's'})
	bad["CONNECT cut in the password"] = packet(0x10, text("MQTT"), []byte{4, 0xC2}, u16(60), text("station-1"), text("station-1"), []byte{0, 50, 'x'})
	bad["CONNECT without the user it flags"] = packet(0x10, text("MQTT"), []byte{4, 0xC2}, u16(60), text("station-1"))
	bad["CONNECT with invalid UTF-8"] = packet(0x10, text("MQTT"), []byte{4, 0xC2}, u16(60), text("station-\xff"), text("station-1"), text(secretOf(1)))
	bad["CONNECT with a NUL"] = packet(0x10, text("MQTT"), []byte{4, 0xC2}, u16(60), text("station-1\x00"), text("station-1"), text(secretOf(1)))
	bad["CONNECT with long properties"] = packet(0x10, text("MQTT"), []byte{5, 0xC2}, u16(60), []byte{0xFF, 0xFF, 0xFF, 0x7F})
	bad["CONNECT with a foreign property"] = packet(0x10, text("MQTT"), []byte{5, 0xC2}, u16(60), properties(5, []byte{0x23, 0, 1}), text("station-1"))
	bad["CONNECT with a cut property"] = packet(0x10, text("MQTT"), []byte{5, 0xC2}, u16(60), []byte{2, 0x11, 0})
	bad["CONNECT with a will that is cut"] = packet(0x10, text("MQTT"), []byte{5, 0xC6}, u16(60), []byte{0}, text("station-1"), []byte{3, 0x18})
	bad["HTTP"] = []byte("GET / HTTP/1.1\r\nHost: gatehouse\r\n\r\n")
	bad["TLS"] = []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3}
	return bad
}

// hostileLater are bytes after a good CONNECT in that version.
func hostileLater(version byte) map[string][]byte {
	own, none := "stations/1/report", properties(version)
	many := bytes.Repeat(join(text(""), []byte{0}), 300)
	bad := map[string][]byte{
		"second CONNECT":              helloOf(1, version).bytes(),
		"CONNACK":                     {0x20, 2, 0, 0},
		"SUBACK":                      {0x90, 3, 0, 1, 0},
		"UNSUBACK":                    {0xB0, 2, 0, 1},
		"PINGRESP":                    {0xD0, 0},
		"PUBREC":                      {0x50, 2, 0, 1},
		"PUBREL":                      {0x62, 2, 0, 1},
		"PUBCOMP":                     {0x70, 2, 0, 1},
		"type 0":                      {0x00, 0},
		"AUTH":                        {0xF0, 2, 0x18, 0},
		"PINGREQ with a body":         {0xC0, 1, 0},
		"PINGREQ with flags":          {0xC3, 0},
		"DISCONNECT with flags":       {0xE5, 0},
		"length without end":          append([]byte{0x30}, bytes.Repeat([]byte{0x80}, 100)...),
		"256 MB":                      {0x30, 0xFF, 0xFF, 0xFF, 0x7F},
		"PUBLISH at QoS 3":            packet(0x36, text(own), u16(1), none),
		"PUBLISH of nothing":          {0x30, 0},
		"PUBLISH cut in the topic":    packet(0x30, []byte{0, 200, 's'}),
		"PUBLISH cut in the id":       packet(0x32, text(own), []byte{1}),
		"PUBLISH with id 0":           packet(0x32, text(own), u16(0), none),
		"PUBLISH with DUP at QoS 0":   packet(0x38, text(own), none),
		"PUBLISH with invalid UTF-8":  packet(0x30, text("stations/\xff/report"), none),
		"PUBLISH with a NUL":          packet(0x30, text(own+"\x00"), none),
		"PUBACK of nothing":           {0x40, 0},
		"PUBACK cut in the id":        {0x40, 1, 0},
		"PUBACK of 2 KB":              packet(0x40, u16(1), bytes.Repeat([]byte{0}, 2000)),
		"PUBACK with flags":           {0x42, 2, 0, 1},
		"SUBSCRIBE without flags":     packet(0x80, u16(1), none, text("a"), []byte{0}),
		"SUBSCRIBE with id 0":         packet(0x82, u16(0), none, text(commandTopic(1)), []byte{1}),
		"SUBSCRIBE to nothing":        packet(0x82, u16(1), none),
		"SUBSCRIBE of nothing":        {0x82, 0},
		"SUBSCRIBE cut in the filter": packet(0x82, u16(1), none, []byte{0, 100, 's'}),
		"SUBSCRIBE without options":   packet(0x82, u16(1), none, text(commandTopic(1))),
		"SUBSCRIBE at QoS 3":          packet(0x82, u16(1), none, text(commandTopic(1)), []byte{3}),
		"SUBSCRIBE to 300 filters":    packet(0x82, u16(1), none, many),
		"SUBSCRIBE to 8000 levels":    packet(0x82, u16(1), none, text(strings.Repeat("/", 8000)), []byte{1}),
		"SUBSCRIBE to 60000 levels":   packet(0x82, u16(1), none, text(strings.Repeat("/", 60000)), []byte{1}),
		"UNSUBSCRIBE of nothing":      {0xA2, 0},
		"UNSUBSCRIBE from nothing":    packet(0xA2, u16(1), none),
		"UNSUBSCRIBE with id 0":       packet(0xA2, u16(0), none, text("a")),
		"UNSUBSCRIBE from 400":        packet(0xA2, u16(1), none, bytes.Repeat(text(""), 400)),
		"UNSUBSCRIBE from 8000":       packet(0xA2, u16(1), none, text(strings.Repeat("/", 8000))),
	}
	if version == 5 {
		// The one that has ended whole processes: the filter ends where its options should be.
		bad["SUBSCRIBE that ends the library's process"] = []byte{0x82, 9, 0, 1, 0, 0, 4, 't', 'e', 's', 't'}
		bad["SUBSCRIBE with retain handling 3"] = packet(0x82, u16(1), none, text(commandTopic(1)), []byte{0x31})
		bad["PUBLISH with a subscription id"] = packet(0x30, text(own), properties(5, []byte{0x0B, 1}))
		bad["PUBLISH with long properties"] = packet(0x30, text(own), []byte{0xFF, 0xFF, 0xFF, 0x7F})
		bad["PUBLISH without properties"] = packet(0x30, text(own))
		bad["PUBLISH with a cut property"] = packet(0x30, text(own), []byte{3, 0x26, 0, 9})
		bad["DISCONNECT that keeps the session"] = packet(0xE0, []byte{0, 5, 0x11, 0, 0, 0, 9})
		bad["DISCONNECT with the will"] = []byte{0xE0, 1, 4}
	}
	return bad
}

// Each of them ends its connection, and the next good station is served.
func TestServer_hostile(t *testing.T) {
	g := open(t, setup{})
	run := func(name string, version byte, b []byte) {
		t.Run(name, func(t *testing.T) {
			g.t = t
			c := g.dial()
			if version != 0 {
				c.connect(1, version)
			}
			c.try(b)
			if version == 0 {
				_ = c.conn.(interface{ CloseWrite() error }).CloseWrite() // or it waits for the rest
			}
			for _, p := range c.expectEnd() {
				refusal := p[0] == 0x20 && p[2] != 0 || p[0] == 0xE0 && p[1] >= 0x80
				if !refusal {
					t.Errorf("answered %x", p)
				}
			}
			await.Until(t, "the end", func() bool { return len(g.handler.live()) == 0 })
			g.wellServed()
		})
	}
	for name, b := range hostileFirst() {
		run(name, 0, b)
	}
	for _, version := range []byte{4, 5} {
		for name, b := range hostileLater(version) {
			run("MQTT "+string('0'+version)+" "+name, version, b)
		}
	}
	g.t = t
	if n := len(g.handler.all("report")); n > 0 {
		t.Errorf("%d reports were heard", n)
	}
}

// Each breach of the protocol is told apart, for the log and the metrics.
func TestServer_hostile_reasons(t *testing.T) {
	for reason, test := range map[string]struct {
		metric string
		b      []byte
	}{
		"sent a second CONNECT":                                    {"mqtt-protocol", helloOf(1, 4).bytes()},
		"sent a packet that no client sends":                       {"mqtt-protocol", []byte{0xF0, 2, 0, 0}},
		"sent a malformed packet":                                  {"mqtt-malformed", []byte{0xC0, 1, 0}},
		"subscribed to a foreign topic":                            {"mqtt-subscribe", packet(0x82, u16(1), bytes.Repeat(join(text("a"), []byte{0}), 9))},
		"sent a packet that says what the protocol does not allow": {"mqtt-protocol", packet(0x82, u16(0), text("a"), []byte{0})},
		"disconnected":                                             {"mqtt-none", []byte{0xE0, 0}},
	} {
		g := open(t, setup{})
		c := g.connect(1, 4)
		c.try(test.b)
		c.expectEnd()
		if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != reason {
			t.Errorf("reason %q, want %q", e.text, reason)
		}
		if n := g.refusals(test.metric); (n == "1") != (reason != "disconnected") {
			t.Errorf("%s: counted %s times as %s", reason, n, test.metric)
		}
	}
}

// Where larger packets are allowed, SUBSCRIBE still is refused by its header.
func TestServer_hostile_longSubscribe(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{PacketSize: 1 << 20}})
	c := g.connect(1, 5)
	c.try(packet(0x82, u16(1), properties(5), text(strings.Repeat("/", 60000)), []byte{1})[:4])
	if packets := c.expectEnd(); len(packets) != 1 || !bytes.Equal(packets[0], []byte{0xE0, 0x87, 0}) {
		t.Errorf("answered %x", packets)
	}
	if n := g.refusals("mqtt-subscribe"); n != "1" {
		t.Errorf("counted %s times", n)
	}
}

// A station in two minds: good packets before a bad one count.
func TestServer_hostile_afterGood(t *testing.T) {
	g := open(t, setup{})
	c := g.connect(1, 4)
	c.send(publication(4, 0, "stations/1/report", 0, "a"), publication(4, 0, "stations/1/report", 0, "b"), []byte{0xF0, 0})
	c.expectEnd()
	g.handler.awaitEvent(t, "disconnected", 1)
	var heard []string
	for _, e := range g.handler.all("report") {
		heard = append(heard, e.text)
	}
	if !slices.Equal(heard, []string{"a", "b"}) {
		t.Errorf("heard %q", heard)
	}
}
