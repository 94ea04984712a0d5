package mqttclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gatehouse/internal/cloud/mqttclient"
)

// attack is what a broker says at some moment, and what the end of the connection then
// says; "": it goes on.
type attack struct {
	name  string
	bytes []byte
	want  string
}

// hostileFirst is what may come instead of the answer to CONNECT.
func hostileFirst() []attack {
	return []attack{
		{"nothing", nil, "closed the connection"},
		{"half an answer", []byte{0x20, 2, 0}, "closed the connection"},
		{"256 MiB", []byte{0x20, 0xFF, 0xFF, 0xFF, 0x7F}, "type 2 with 268435455 bytes"},
		{"an endless length", []byte{0x20, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}, "more than four bytes"},
		{"an empty answer", []byte{0x20, 0}, "type 2 with 0 bytes"},
		{"a long answer", []byte{0x20, 3, 0, 0, 0}, "type 2 with 3 bytes"},
		{"reserved flags", []byte{0x21, 2, 0, 0}, "flags"},
		{"reserved flags of the answer", []byte{0x20, 2, 2, 0}, "answer to CONNECT with 2, 0"},
		{"a code that is reserved", connack(6), "answer to CONNECT with 0, 6"},
		{"a code of nobody", connack(0xFE), "answer to CONNECT with 0, 254"},
		{"a message first", message("a", 0, 0, "x"), "not an MQTT broker"},
		{"HTTP", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "not an MQTT broker"},
		{"a TLS alert", []byte{21, 3, 1, 0, 2, 2, 70}, "not an MQTT broker"},
		{"zeros", make([]byte, 1000), "not an MQTT broker"},
	}
}

// hostileLater is what may come from a broker that has let the client in and granted it
// "in/#", which has had the id 1. A message with the id 2 waits for its acknowledgement.
func hostileLater() []attack {
	long := strings.Repeat("a", 1025)
	return []attack{
		{"CONNACK again", connack(0), "type 2"},
		{"CONNECT", packet(0x10, text("MQTT"), []byte{4, 2, 0, 30}, text("x")), "type 1"},
		{"SUBSCRIBE", packet(0x82, u16(1), text("a"), []byte{1}), "flags"},
		{"SUBSCRIBE without flags", packet(0x80, u16(1), text("a"), []byte{1}), "type 8"},
		{"UNSUBACK for nothing", packet(0xB0, u16(1)), "nothing that was sent"},
		{"UNSUBACK with a body", packet(0xB0, u16(1), []byte{0}), "type 11 with 3 bytes"},
		{"UNSUBSCRIBE", packet(0xA0, u16(1), text("a")), "type 10"},
		{"PINGREQ", []byte{0xC0, 0}, "type 12"},
		{"DISCONNECT", []byte{0xE0, 0}, "type 14"},
		{"type 0", []byte{0, 0}, "type 0"},
		{"type 15", []byte{0xF0, 0}, "type 15"},
		{"PUBREC", packet(0x50, u16(1)), "type 5"},
		{"PUBREL", packet(0x62, u16(1)), "flags"},
		{"PUBCOMP", packet(0x70, u16(1)), "type 7"},
		{"SUBACK for nothing", suback(1, 1), "nothing that was sent"},
		{"SUBACK for a message", suback(2, 1), "nothing that was sent"},
		{"PUBACK for a subscription", acknowledgement(1), "nothing that was sent"},
		{"SUBACK with two codes", suback(1, 1, 1), "type 9 with 4 bytes"},
		{"SUBACK with many codes", suback(1, make([]byte, 1000)...), "type 9 with 1002 bytes"},
		{"SUBACK without a code", suback(1), "type 9 with 2 bytes"},
		{"PUBACK for nothing", acknowledgement(3), "nothing that was sent"},
		{"PUBACK for 0", acknowledgement(0), "nothing that was sent"},
		{"PUBACK twice", append(acknowledgement(2), acknowledgement(2)...), "nothing that was sent"},
		{"PUBACK too long", packet(0x40, u16(1), []byte{0}), "type 4 with 3 bytes"},
		{"PUBACK too short", packet(0x40, []byte{1}), "type 4 with 1 bytes"},
		{"PUBACK with flags", []byte{0x42, 2, 0, 1}, "flags"},
		{"many PINGRESP for nothing", bytes.Repeat([]byte{0xD0, 0}, 500), ""},
		{"PINGRESP with a body", []byte{0xD0, 1, 0}, "type 13 with 1 bytes"},
		{"PUBLISH of 256 MiB", []byte{0x30, 0xFF, 0xFF, 0xFF, 0x7F, 0, 1, 'a'}, "268435455 bytes"},
		{"PUBLISH above 1 MiB", []byte{0x30, 0x81, 0x80, 0x40, 0, 1, 'a'}, "1048577 bytes"},
		{"PINGRESP of 256 MiB", []byte{0xD0, 0xFF, 0xFF, 0xFF, 0x7F}, "type 13"},
		{"QoS 2", message("in/a", 2, 5, "x"), "QoS 2"},
		{"QoS 3", message("in/a", 3, 5, "x"), "QoS 3"},
		{"id 0", message("in/a", 1, 0, "x"), "id 0"},
		{"no topic", message("", 0, 0, "x"), "valid topic"},
		{"no topic and nothing else", packet(0x30), "QoS 0 and 0 bytes"},
		{"a topic beyond the packet", []byte{0x30, 4, 0, 3, 'a', 'b'}, "a topic of 3 bytes in 4"},
		{"no room for the id", []byte{0x32, 4, 0, 2, 'a', 'b'}, "a topic of 2 bytes in 4"},
		{"a wildcard", message("in/#", 0, 0, "x"), "valid topic"},
		{"another wildcard", message("in/+/a", 0, 0, "x"), "valid topic"},
		{"a zero byte in the topic", message("in/\x00", 0, 0, "x"), "valid topic"},
		{"a topic that is no UTF-8", message("in/\xC3", 0, 0, "x"), "valid topic"},
		{"a surrogate in the topic", message("in/\xED\xA0\x80", 0, 0, "x"), "valid topic"},
		{"a long topic", message(long, 0, 0, "x"), "a topic of 1025 bytes"},
		{"an endless length", []byte{0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1}, "more than four bytes"},
		{"half a message", message("in/a", 0, 0, "xxxxxxxx")[:9], "closed the connection"},
		{"many messages that nobody wants", bytes.Repeat(message("out", 1, 7, "x"), 10_000), ""},
		{"many messages with one id", bytes.Repeat(message("in/a", 1, 7, "x"), 10_000), ""},
		{"long messages", bytes.Repeat(message("in/a", 0, 0, strings.Repeat("x", 1<<20-6)), 20), ""},
		{"an odd length", []byte{0x30, 0x88, 0x80, 0x00, 0, 4, 'i', 'n', '/', 'a', 'x', 'y'}, ""},
	}
}

// allocated returns how many bytes this process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// bounded checks that what an attack costs in memory has to do with its size, and not
// with what it says.
func bounded(t testing.TB, before uint64, size int) {
	t.Helper()
	if cost := allocated() - before; cost > 8<<20+uint64(200*size) {
		t.Errorf("it cost %d bytes of memory", cost)
	}
}

func TestDial_hostile(t *testing.T) {
	for _, a := range hostileFirst() {
		t.Run(a.name, func(t *testing.T) {
			var kind atomic.Bool
			b := listen(t, func(p *peer) {
				if kind.Load() {
					p.serve()
					return
				}
				_, _ = p.await(connect)
				p.say(a.bytes)
			})
			before := allocated()
			failed := refusedAt(t, config(b.url()), mqttclient.StepLogin)
			contains(t, "the error", failed.Error(), a.want)
			bounded(t, before, len(a.bytes))
			kind.Store(true)
			dial(t, config(b.url())).Close()
		})
	}
}

func TestConn_hostile(t *testing.T) {
	for _, a := range hostileLater() {
		t.Run(a.name, func(t *testing.T) {
			var kind atomic.Bool
			b := listen(t, func(p *peer) {
				if kind.Load() {
					p.serve()
					return
				}
				_, _ = p.welcome(1)
				_, _ = p.await(publish)
				p.say(a.bytes)
				if a.want == "" {
					p.say(acknowledgement(2))
					p.silent()
				}
			})
			cfg := config(b.url())
			cfg.Topics = []string{"in/#"}
			before := allocated()
			c := dial(t, cfg)
			d := c.Publish(mqttclient.Message{Topic: "out/a", QoS: 1})
			checkEnd(t, c, d, a)
			bounded(t, before, len(a.bytes))
			c.Close()
			kind.Store(true)
			again := dial(t, cfg)
			d = again.Publish(mqttclient.Message{Topic: "out/a", QoS: 1})
			within(t, "the next connection", d.Done())
			if d.Err() != nil {
				t.Errorf("the next connection: %v", d.Err())
			}
			again.Close()
		})
	}
}

// checkEnd checks that an attack ends the connection, or does not.
func checkEnd(t *testing.T, c *mqttclient.Conn, d *mqttclient.Delivery, a attack) {
	t.Helper()
	within(t, "the delivery", d.Done())
	if a.want == "" {
		if err := d.Err(); err != nil {
			t.Errorf("the connection did not go on: %v", err)
		}
		return
	}
	within(t, "the end", c.Lost())
	contains(t, "the reason", fmt.Sprint(c.Err()), a.want)
	if d.Err() == nil && !strings.HasPrefix(a.name, "PUBACK twice") {
		t.Error("the message counts as delivered")
	}
}

// Answers to SUBSCRIBE that MQTT does not allow.
func TestDial_hostileSuback(t *testing.T) {
	for _, test := range []struct {
		name  string
		codes []byte
	}{
		{"two codes", []byte{1, 1}},
		{"60,000 codes", make([]byte, 60_000)},
		{"no code", nil},
		{"QoS 2", []byte{2}},
		{"a code of MQTT 5", []byte{0x87}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := listen(t, func(p *peer) {
				_, _ = p.await(connect)
				p.say(connack(0))
				body, _ := p.await(subscribe)
				p.say(suback(id(body), test.codes...))
			})
			cfg := config(b.url())
			cfg.Topics = []string{"a"}
			contains(t, "the error", refusedAt(t, cfg, mqttclient.StepSubscribe).Error(), "breaks the rules")
		})
	}
}

// A refusal of one subscription among several, answered in another order.
func TestDial_refusedSubscription(t *testing.T) {
	b := listen(t, func(p *peer) {
		_, _ = p.await(connect)
		p.say(connack(0))
		one, _ := p.await(subscribe)
		two, _ := p.await(subscribe)
		p.say(suback(id(two), 0x80), suback(id(one), 0))
		p.silent()
	})
	cfg := config(b.url())
	cfg.Topics = []string{"a/b", "c/#"}
	failed := refusedAt(t, cfg, mqttclient.StepSubscribe)
	contains(t, "the error", failed.Error(), "c/#")
}

// A broker that says nothing any more, over a connection that stays.
func TestConn_silent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := piped(t, func(p *peer) {
			_, _ = p.welcome(0)
			p.silent()
		})
		cfg.Keepalive = 30 * time.Second
		c := dial(t, cfg)
		d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
		began := time.Now()
		<-c.Lost()
		if took := time.Since(began); took > 55*time.Second {
			t.Errorf("it took %s to find out", took)
		}
		<-d.Done()
		for _, err := range []error{d.Err(), c.Err()} {
			contains(t, "the error", fmt.Sprint(err), "says nothing")
		}
		c.Close()
	})
}

// The pings keep a connection without any messages alive.
func TestConn_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keepalive := range []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, 10 * time.Minute} {
			cfg := piped(t, (*peer).serve)
			cfg.Keepalive = keepalive
			c := dial(t, cfg)
			time.Sleep(100 * keepalive)
			if err := c.Err(); err != nil {
				t.Errorf("keepalive %s: %v", keepalive, err)
			}
			c.Close()
		}
	})
}

// A broker that lets the client in and never reads again: nothing waits for it for
// long, and nothing is delivered.
func TestConn_neverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := dial(t, piped(t, func(p *peer) {
			_, _ = p.welcome(0)
			<-end
		}))
		began := time.Now()
		results := make(chan *mqttclient.Delivery)
		for qos := range byte(2) {
			for range 20 {
				go func() { results <- c.Publish(mqttclient.Message{Topic: "a", QoS: qos}) }()
			}
		}
		for range 40 {
			d := <-results
			<-d.Done()
			contains(t, "the error", fmt.Sprint(d.Err()), "does not read")
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		c.Close()
		close(end)
	})
}

// One message alone is enough to find that out.
func TestConn_neverReads_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := dial(t, piped(t, func(p *peer) {
			_, _ = p.welcome(0)
			<-end
		}))
		began := time.Now()
		d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
		contains(t, "the error", fmt.Sprint(d.Err()), "does not read")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %s", took)
		}
		c.Close()
		close(end)
	})
}

// A connection that was lost leaves nothing behind, even if nobody closes it.
func TestConn_lostNotClosed(t *testing.T) {
	for _, last := range [][]byte{nil, acknowledgement(9)} {
		b := listen(t, func(p *peer) {
			_, _ = p.welcome(1)
			p.say(last)
		})
		cfg := config(b.url())
		cfg.Topics = []string{"in"}
		others := goleak.IgnoreCurrent()
		c, err := mqttclient.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		within(t, "the end", c.Lost())
		nothingLeft(t, others)
	}
}

// One that reads a little now and then holds a publisher up for no longer than its own
// message and the one before it.
func TestConn_readsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := dial(t, piped(t, func(p *peer) {
			_, _ = p.welcome(0)
			for {
				time.Sleep(9 * time.Second)
				if _, _, err := p.read(); err != nil {
					break
				}
			}
			<-end
		}))
		slowest := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				began := time.Now()
				c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
				slowest <- time.Since(began)
			}()
		}
		for range 2 {
			if took := <-slowest; took > 20*time.Second {
				t.Errorf("Publish took %s", took)
			}
		}
		c.Close()
		close(end)
	})
}

// Many connections in a row, each of which is lost in some way, leave nothing behind.
func TestDial_manyTimes(t *testing.T) {
	const rounds = 1000
	var round atomic.Int64
	b := listen(t, func(p *peer) {
		switch round.Load() % 5 {
		case 0: // at once
		case 1:
			_, _ = p.welcome(0)
			p.say(message("in/a", 1, 7, "x"))
		case 2:
			_, _ = p.welcome(1)
			p.say(message("in/a", 1, 7, "x"), message("in/a", 1, 8, "x"))
		case 3:
			_, _ = p.welcome(1)
			_, _ = p.await(publish)
			_ = p.Conn.(*net.TCPConn).SetLinger(0)
		case 4:
			p.serve()
		}
	})
	cfg := config(b.url())
	cfg.Topics = []string{"in/#"}
	for n := range int64(rounds) {
		round.Store(n)
		c, err := mqttclient.Dial(t.Context(), cfg)
		if err != nil {
			continue
		}
		d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
		if n%5 != 4 {
			within(t, "the end", c.Lost())
		}
		if n%2 == 0 {
			go c.Close()
		}
		c.Close()
		within(t, "a delivery", d.Done())
		if n%5 != 4 && d.Err() == nil {
			t.Errorf("round %d: a message counts as delivered", n)
		}
		if n%5 == 4 && d.Err() != nil && !errors.Is(d.Err(), mqttclient.ErrClosed) {
			t.Errorf("round %d: %v", n, d.Err())
		}
	}
}
