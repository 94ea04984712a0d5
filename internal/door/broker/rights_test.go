package broker_test

import (
	"bytes"
	"fmt"
	"testing"

	"gatehouse/internal/test/await"
)

func TestServer_publish(t *testing.T) {
	for _, version := range []byte{4, 5} {
		g := open(t, setup{})
		c := g.connect(1, version)
		c.send(publication(version, 0, "stations/1/report", 0, "a"))
		c.send(publication(version, 2, "stations/1/report", 7, "b"))
		if body := c.expect(0x40); !bytes.Equal(body, u16(7)) {
			t.Errorf("MQTT %d: PUBACK %x", version, body)
		}
		c.send(publication(version, 2, "stations/1/result", 7, "c"), publication(version, 0x0A, "stations/1/result", 65535, ""))
		c.expect(0x40)
		c.expect(0x40)
		var got []string
		g.handler.awaitEvent(t, "result", 2)
		for _, e := range append(g.handler.all("report"), g.handler.all("result")...) {
			got = append(got, e.kind+" "+e.text)
		}
		if fmt.Sprint(got) != "[report a report b result c result ]" {
			t.Errorf("MQTT %d: heard %q", version, got)
		}
		conn := g.connOf(1)
		g.handler.mu.Lock()
		if heard := g.handler.heard[conn]; heard != 4 {
			t.Errorf("MQTT %d: %d packets were heard", version, heard)
		}
		g.handler.mu.Unlock()
	}
}

// User properties of a message do not come back in its PUBACK, which would make it
// carry a reason code that no PUBACK may.
func TestServer_publish_properties(t *testing.T) {
	g := open(t, setup{})
	c := g.connect(1, 5)
	user := join([]byte{0x26}, text("k"), text("v"))
	c.send(packet(0x32, text("stations/1/report"), u16(7), properties(5, user), []byte("a")))
	if body := c.expect(0x40); !bytes.Equal(body, u16(7)) {
		t.Errorf("PUBACK %x", body)
	}
}

func TestServer_acknowledged(t *testing.T) {
	g := open(t, setup{})
	four, five := g.connect(1, 4), g.connect(2, 5)
	four.send(packet(0x40, u16(3)))
	five.send(packet(0x40, u16(4)), packet(0x40, u16(5), []byte{0x87}), packet(0x40, u16(6), []byte{0x10, 0}))
	g.handler.awaitEvent(t, "ack", 4)
	want := map[uint16]byte{3: 0, 4: 0, 5: 0x87, 6: 0x10}
	for _, e := range g.handler.all("ack") {
		if code, ok := want[e.id]; !ok || code != e.code {
			t.Errorf("packet %d was acknowledged with %#x", e.id, e.code)
		}
	}
	// A message of the station's own with the id of a command acknowledges nothing.
	four.send(publication(4, 2, "stations/1/report", 9, "{}"))
	four.expect(0x40)
	if n := len(g.handler.all("ack")); n != 4 {
		t.Errorf("%d acknowledgements", n)
	}
}

// A breach of the right to publish. MQTT 5 is answered "Not authorized" for a foreign
// topic, in PUBACK or DISCONNECT, and by a code of its own for what is not offered;
// MQTT 3.1.1 is disconnected. None of it reaches anybody.
func TestServer_publish_breach(t *testing.T) {
	const own = "stations/1/report"
	cases := []struct {
		name   string
		flags  byte
		topic  string
		reason string
		code   byte // of MQTT 5
		stays  bool // the connection of MQTT 5
	}{
		{"another's report", 0, "stations/2/report", "mqtt-topic", 0x87, false},
		{"another's report at QoS 1", 2, "stations/2/report", "mqtt-topic", 0x87, true},
		{"another's command", 2, "stations/2/command", "mqtt-topic", 0x87, true},
		{"its own command", 2, "stations/1/command", "mqtt-topic", 0x87, true},
		{"below its report", 2, own + "/x", "mqtt-topic", 0x87, true},
		{"with a slash", 2, "/" + own, "mqtt-topic", 0x87, true},
		{"in other letters", 2, "Stations/1/report", "mqtt-topic", 0x87, true},
		{"$SYS", 2, "$SYS/broker/version", "mqtt-topic", 0x87, true},
		{"$SYS at QoS 0", 0, "$SYS/broker/version", "mqtt-topic", 0x87, false},
		{"$share", 2, "$share/a/stations/1/report", "mqtt-topic", 0x87, true},
		{"wildcard +", 2, "stations/+/report", "mqtt-protocol", 0x82, false},
		{"wildcard #", 0, "#", "mqtt-protocol", 0x82, false},
		{"no topic", 2, "", "mqtt-protocol", 0x82, false},
		{"no topic at QoS 0", 0, "", "mqtt-protocol", 0x82, false},
		{"retained", 1, own, "mqtt-retain", 0x9A, false},
		{"retained at QoS 1", 3, own, "mqtt-retain", 0x9A, false},
		{"QoS 2", 4, own, "mqtt-qos", 0x9B, false},
		{"QoS 2 to another", 4, "stations/2/report", "mqtt-qos", 0x9B, false},
	}
	for _, test := range cases {
		for _, version := range []byte{4, 5} {
			g := open(t, setup{})
			other, _ := g.connectAndSubscribe(2, version, 1)
			c := g.connect(1, version)
			c.send(publication(version, test.flags, test.topic, 5, "{}"))
			switch {
			case version == 4:
				if packets := c.expectEnd(); len(packets) != 0 {
					t.Errorf("%s: MQTT 3.1.1 is answered %x", test.name, packets)
				}
			case test.stays:
				if body := c.expect(0x40); len(body) < 3 || !bytes.Equal(body[:3], []byte{0, 5, test.code}) {
					t.Errorf("%s: PUBACK %x", test.name, body)
				}
				c.ping()
			default:
				if packets := c.expectEnd(); len(packets) != 1 || !bytes.Equal(packets[0], []byte{0xE0, test.code, 0}) {
					t.Errorf("%s: answered %x", test.name, packets)
				}
			}
			if n := g.refusals(test.reason); n != "1" {
				t.Errorf("%s, MQTT %d: counted %s times as %s", test.name, version, n, test.reason)
			}
			other.ping() // nothing came before the answer
			if heard := append(g.handler.all("report"), g.handler.all("result")...); len(heard) != 0 {
				t.Errorf("%s: the handler heard %+v", test.name, heard)
			}
		}
	}
}

func TestServer_publish_topicAlias(t *testing.T) {
	for name, topic := range map[string]string{"set": "stations/1/report", "used": "", "set for another": "stations/2/report"} {
		for _, flags := range []byte{0, 2} {
			g := open(t, setup{})
			c := g.connect(1, 5)
			id := []byte(nil)
			if flags > 0 {
				id = u16(5)
			}
			c.send(packet(0x30|flags, text(topic), id, properties(5, []byte{0x23, 0, 1}), []byte("{}")))
			if packets := c.expectEnd(); len(packets) != 1 || !bytes.Equal(packets[0], []byte{0xE0, 0x94, 0}) {
				t.Errorf("%s: answered %x", name, packets)
			}
			if len(g.handler.all("report")) != 0 {
				t.Errorf("%s: a report was heard", name)
			}
		}
	}
}

func TestServer_subscribe(t *testing.T) {
	for _, version := range []byte{4, 5} {
		for _, qos := range []byte{0, 1, 2} {
			g := open(t, setup{})
			c := g.connect(1, version)
			c.send(subscription(version, 9, commandTopic(1), qos))
			want := join(u16(9), properties(version), []byte{min(qos, 1)})
			if body := c.expect(0x90); !bytes.Equal(body, want) {
				t.Errorf("MQTT %d, QoS %d: SUBACK %x", version, qos, body)
			}
		}
	}
}

// A foreign topic is refused in SUBACK, and the connection stays.
func TestServer_subscribe_breach(t *testing.T) {
	const noLocal = 0x05
	topics := map[string]byte{
		"stations/2/command": 1, "stations/1/report": 1, "stations/1/result": 0, "stations/1/command/#": 1, "stations/1/+": 1,
		"stations/+/command": 1, "+/1/command": 1, "#": 0, "+": 0, "/stations/1/command": 1, "stations/1/command/": 1,
		"$share/g/stations/1/command": 1, "$SHARE/g/stations/1/command": 1, "$share": 1, "$SYS/#": 0, "$SYS/broker/version": 0,
		"stations/1/Command": 1, "stations/01/command": 1,
	}
	for _, version := range []byte{4, 5} {
		if version == 5 {
			topics[commandTopic(1)] = noLocal
		}
		g := open(t, setup{})
		for topic, options := range topics {
			c := g.connect(1, version)
			c.send(subscription(version, 9, topic, options))
			code := map[byte]byte{4: 0x80, 5: 0x87}[version]
			if body := c.expect(0x90); !bytes.Equal(body, join(u16(9), properties(version), []byte{code})) {
				t.Errorf("MQTT %d: SUBACK %x for %q", version, body, topic)
			}
			c.ping()
			if _, ok := g.connOf(1).Subscribed(); ok {
				t.Errorf("MQTT %d: subscribed by %q", version, topic)
			}
			c.close()
			await.Until(t, "the end", func() bool { return len(g.handler.live()) == 0 })
		}
		if n := g.refusals("mqtt-subscribe"); n != fmt.Sprint(len(topics)) {
			t.Errorf("counted %s breaches of %d", n, len(topics))
		}
	}
}

// Of several topics each is answered for itself.
func TestServer_subscribe_several(t *testing.T) {
	g := open(t, setup{})
	c := g.connect(1, 4)
	c.send(packet(0x82, u16(9), text("stations/2/command"), []byte{1}, text(commandTopic(1)), []byte{2}, text("#"), []byte{0}))
	if body := c.expect(0x90); !bytes.Equal(body, []byte{0, 9, 0x80, 1, 0x80}) {
		t.Errorf("SUBACK %x", body)
	}
	if qos, ok := g.connOf(1).Subscribed(); !ok || qos != 1 {
		t.Errorf("Subscribed gave %d, %v", qos, ok)
	}
}

func TestServer_subscribe_identifier(t *testing.T) {
	g := open(t, setup{})
	c := g.connect(1, 5)
	c.send(packet(0x82, u16(9), properties(5, []byte{0x0B, 5}), text(commandTopic(1)), []byte{1}))
	if body := c.expect(0x90); !bytes.Equal(body, []byte{0, 9, 0, 0x87}) {
		t.Errorf("SUBACK %x", body)
	}
}

// Whatever a subscription asks for, nothing is waiting for it: no $SYS, no retained
// message, no command for the connection before.
func TestServer_subscribe_nothingWaits(t *testing.T) {
	g := open(t, setup{})
	first, conn := g.connectAndSubscribe(1, 5, 1)
	if err := conn.Send(1, 1, says("open"), await.Deadline()); err != nil {
		t.Fatal(err)
	}
	first.readCommand(1) // and no PUBACK
	h := helloOf(1, 5)
	h.flags &^= 0x02
	h.properties = []byte{0x11, 0xFF, 0xFF, 0xFF, 0xFF}
	second := g.dial()
	if body := second.greet(h); body[0] != 0 {
		t.Errorf("there is a session: %x", body)
	}
	if _, ok := g.connOf(1).Subscribed(); ok {
		t.Error("a subscription was inherited")
	}
	second.subscribe(1, 1)
	second.send(subscription(5, 2, "$SYS/#", 0), subscription(5, 3, "#", 0))
	second.expect(0x90)
	second.expect(0x90)
	second.ping()
}
