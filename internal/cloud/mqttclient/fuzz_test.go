package mqttclient_test

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/test/await"
)

// FuzzBroker says bytes as a broker that has let the client in, has granted it "in/#"
// (id 1) and was sent two messages (ids 2 and 3), or, early, has not done so yet.
func FuzzBroker(f *testing.F) {
	for _, a := range hostileLater() {
		f.Add(false, shortened(a.bytes))
		f.Add(true, shortened(a.bytes))
	}
	f.Add(false, bytes.Join([][]byte{
		message("in/a", 1, 9, "x"), acknowledgement(3), acknowledgement(2), message("in/b", 0, 0, strings.Repeat("y", 200)),
		message("out", 1, 9, "z"), packet(0x3B, text("in/c"), u16(9), nil),
	}, nil))
	f.Add(true, bytes.Join([][]byte{message("in/a", 1, 9, "x"), suback(1, 0), acknowledgement(2), acknowledgement(3)}, nil))
	f.Add(true, append(suback(1, 0x80), message("in/a", 1, 9, "x")...))
	f.Fuzz(func(t *testing.T, early bool, b []byte) {
		try(t, b, func(p *peer) {
			if early {
				_, _ = p.welcome(0)
				return
			}
			_, _ = p.welcome(1)
			_, _ = p.await(publish)
			_, _ = p.await(publish)
		})
	})
}

// FuzzBroker_start says bytes as a broker from the very start.
func FuzzBroker_start(f *testing.F) {
	for _, a := range hostileFirst() {
		f.Add(a.bytes)
	}
	for _, a := range hostileLater() {
		f.Add(append(connack(0), shortened(a.bytes)...))
		f.Add(bytes.Join([][]byte{connack(0), suback(1, 1), shortened(a.bytes)}, nil))
	}
	f.Add(connack(5))
	f.Fuzz(func(t *testing.T, b []byte) { try(t, b, func(*peer) {}) })
}

// shortened keeps seeds small: a fuzzer does not get far with long ones.
func shortened(b []byte) []byte { return b[:min(len(b), 2<<10)] }

// try connects to a broker that greets, says b and hangs up, and sees to it that all
// that comes of it keeps the promises of the package.
func try(t *testing.T, b []byte, greet func(p *peer)) {
	before, goroutines := allocated(), runtime.NumGoroutine()
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		p := newPeer(theirs)
		greet(p)
		go p.silent() // lest neither side reads
		p.say(b)
	}()
	cfg := config("tcp://broker.example")
	cfg.Open = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
	cfg.Topics, cfg.MaxPayload = []string{"in/#"}, 100
	cfg.Receive = func(m mqttclient.Message) {
		if !utf8.ValidString(m.Topic) || len(m.Payload) > 101 || m.QoS > 1 {
			t.Errorf("received %+v", m)
		}
	}
	c, err := mqttclient.Dial(t.Context(), cfg)
	if err == nil {
		deliveries := []*mqttclient.Delivery{
			c.Publish(mqttclient.Message{Topic: "a", QoS: 1, Payload: []byte("x")}),
			c.Publish(mqttclient.Message{Topic: "b", QoS: 1}),
		}
		within(t, "the end", c.Lost())
		for _, d := range deliveries {
			within(t, "a delivery", d.Done())
		}
		c.Close()
	}
	bounded(t, before, len(b))
	goneAgain(t, goroutines)
}

// goneAgain waits until no more goroutines run than before. It does not pause, for the sake
// of the fuzzer.
func goneAgain(t *testing.T, before int) {
	t.Helper()
	for deadline := await.Deadline(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines are left, of %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
