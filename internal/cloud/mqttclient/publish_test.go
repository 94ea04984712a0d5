package mqttclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

func TestConn_Publish(t *testing.T) {
	heard := make(chan string, 10)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(0)
		for range 3 {
			first, body, err := p.read()
			if err != nil {
				return
			}
			topic, rest := cut(body)
			if first&6 == 0 {
				heard <- fmt.Sprintf("%#x %s %s", first, topic, rest)
				continue
			}
			heard <- fmt.Sprintf("%#x %s %d %s", first, topic, id(rest), rest[2:])
			p.say(acknowledgement(id(rest)))
		}
		p.silent()
	})
	c := dial(t, config(b.url()))
	payload := []byte("one")
	first := c.Publish(mqttclient.Message{Topic: "a/b", Payload: payload, QoS: 1})
	copy(payload, "two")
	second := c.Publish(mqttclient.Message{Topic: "a", Payload: payload, QoS: 1, Retained: true})
	third := c.Publish(mqttclient.Message{Topic: "ä"})
	for _, d := range []*mqttclient.Delivery{first, second, third} {
		within(t, "a delivery", d.Done())
		if err := d.Err(); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"0x32 a/b 1 one", "0x33 a 2 two", "0x30 ä "} {
		if got := <-heard; got != want {
			t.Errorf("the broker got %q, want %q", got, want)
		}
	}
}

// The connection goes on after the end of a subscription.
func TestConn_Unsubscribe(t *testing.T) {
	heard := make(chan string, 1)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(1)
		first, body, _ := p.read()
		if len(body) >= 2 {
			heard <- fmt.Sprintf("%#x %s", first, body[2:])
			p.say(packet(0xB0, body[:2]))
		}
		p.serve()
	})
	cfg := config(b.url())
	cfg.Topics, cfg.Receive = []string{"in/+"}, func(mqttclient.Message) {}
	c := dial(t, cfg)
	c.Unsubscribe("in/+")
	if got, want := <-heard, "0xa2 \x00\x04in/+"; got != want {
		t.Errorf("the broker got %q, want %q", got, want)
	}
	d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	within(t, "a message after that", d.Done())
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}

// A delivery says nothing good before the acknowledgement, which may come out of order.
func TestDelivery_Err(t *testing.T) {
	order := make(chan uint16)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(0)
		for id := range order {
			p.say(acknowledgement(id))
		}
		p.silent()
	})
	c := dial(t, config(b.url()))
	one := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	two := c.Publish(mqttclient.Message{Topic: "b", QoS: 1})
	order <- 2
	within(t, "the second", two.Done())
	if err := two.Err(); err != nil {
		t.Errorf("acknowledged: %v", err)
	}
	if ended(one) {
		t.Error("a message that was not acknowledged is done")
	}
	order <- 1
	within(t, "the first", one.Done())
	if err := one.Err(); err != nil {
		t.Errorf("acknowledged: %v", err)
	}
	close(order)
}

func ended(d *mqttclient.Delivery) bool {
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// A broker that never acknowledges gets no more than it may have open; no id is used
// twice at a time.
func TestConn_Publish_tooMany(t *testing.T) {
	seen := make(map[uint16]bool)
	answer := make(chan uint16)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(0)
		for range 16 << 10 {
			body, err := p.await(publish)
			if err != nil {
				return
			}
			_, rest := cut(body)
			if n := id(rest); n == 0 || seen[n] {
				t.Errorf("the id %d comes again", n)
			}
			seen[id(rest)] = true
		}
		for id := range answer {
			p.say(acknowledgement(id))
		}
		p.silent()
	})
	c := dial(t, config(b.url()))
	deliveries := make([]*mqttclient.Delivery, 16<<10)
	for i := range deliveries {
		deliveries[i] = c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	}
	d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	within(t, "one too many", d.Done())
	contains(t, "its error", fmt.Sprint(d.Err()), "too many")
	answer <- 7
	within(t, "the one with the id 7", deliveries[6].Done())
	next := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	if ended(next) {
		t.Errorf("after an acknowledgement: %v", next.Err())
	}
	close(answer)
	c.Close()
	within(t, "what was never acknowledged", deliveries[0].Done())
	if !errors.Is(deliveries[0].Err(), mqttclient.ErrClosed) {
		t.Errorf("it ends with %v, want ErrClosed", deliveries[0].Err())
	}
}

// Ids begin again at 1, and one that is in use is left out.
func TestConn_Publish_ids(t *testing.T) {
	ids := make(chan uint16, 10)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(0)
		for {
			body, err := p.await(publish)
			if err != nil {
				return
			}
			_, rest := cut(body)
			ids <- id(rest)
		}
	})
	c := dial(t, config(b.url()))
	for _, last := range []uint16{65533, 65534, 65534} {
		c.UseID(last)
		c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	}
	c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	for _, want := range []uint16{65534, 65535, 1, 2} {
		if got := <-ids; got != want {
			t.Errorf("the id is %d, want %d", got, want)
		}
	}
}

// Where the connection ends before the acknowledgement, no delivery is good; whatever
// moment the end chooses.
func TestDelivery_connectionLost(t *testing.T) {
	const rounds, each = 300, 10
	var acknowledged atomic.Int64
	var round atomic.Int64
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(0)
		for range round.Load() % (each + 1) {
			body, err := p.await(publish)
			if err != nil {
				return
			}
			_, rest := cut(body)
			acknowledged.Add(1)
			p.say(acknowledgement(id(rest)))
		}
		if round.Load()%2 == 0 {
			_ = p.Conn.(*net.TCPConn).SetLinger(0) // a reset
		}
	})
	good := int64(0)
	for n := range int64(rounds) {
		round.Store(n)
		c := dial(t, config(b.url()))
		for range each {
			d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1, Payload: make([]byte, 100)})
			defer func() {
				within(t, "a delivery", d.Done())
				if d.Err() == nil {
					good++
				}
			}()
		}
		within(t, "the end", c.Lost())
		if c.Err() == nil {
			t.Error("lost without a reason")
		}
		late := c.Publish(mqttclient.Message{Topic: "a", QoS: 0})
		within(t, "a message after the end", late.Done())
		if late.Err() == nil {
			t.Error("a message after the end has no error")
		}
		c.Close()
	}
	t.Cleanup(func() {
		if good > acknowledged.Load() || good == 0 {
			t.Errorf("%d deliveries are good, and %d were acknowledged", good, acknowledged.Load())
		}
	})
}

// slowly is a connection whose writes return some time after the bytes have gone.
type slowly struct {
	net.Conn
	on *atomic.Bool
}

func (s slowly) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if s.on.Load() {
		time.Sleep(time.Second) // in the bubble of who uses it
	}
	return n, err
}

// overtaken dials over a connection whose writes return late, once on is set.
func overtaken(t *testing.T, on *atomic.Bool, play func(p *peer)) mqttclient.Config {
	cfg := piped(t, play)
	open := cfg.Open
	cfg.Open = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, failed := open(ctx, network, address)
		return slowly{conn, on}, failed
	}
	return cfg
}

// An acknowledgement that overtakes the return of the write is a good one.
func TestDelivery_overtaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		c := dial(t, overtaken(t, &on, (*peer).serve))
		on.Store(true)
		d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
		<-d.Done()
		if d.Err() != nil {
			t.Errorf("got %v, want nil", d.Err())
		}
		on.Store(false)
		c.Close()
	})
}
