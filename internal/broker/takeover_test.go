package broker_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"gatehouse/internal/broker"
)

func TestServer_takeover(t *testing.T) {
	for _, version := range []byte{4, 5} {
		g := open(t, setup{})
		old, oldConn := g.connectAndSubscribe(1, version, 1)
		c := g.dial()
		c.connect(1, version)
		var want [][]byte
		if version == 5 {
			want = [][]byte{{0xE0, 0x8E, 0}}
		}
		if got := old.expectEnd(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("MQTT %d: the old connection ends with %x", version, got)
		}
		if e := g.handler.awaitEvent(t, "disconnected", 1); e.conn != oldConn || e.text != "taken over" {
			t.Errorf("MQTT %d: %+v", version, e)
		}
		c.subscribe(1, 1)
		c.exchangeCommand(g.connOf(1), 1)
		if g.connOf(1) == oldConn {
			t.Error("the old connection lives")
		}
	}
}

func TestServer_takeover_wrongSecret(t *testing.T) {
	for _, version := range []byte{4, 5} {
		g := open(t, setup{})
		c, conn := g.connectAndSubscribe(1, version, 1)
		for range 20 {
			h := helloOf(1, version)
			h.secret = "SECRET-OF-NOBODY"
			thief := g.dial()
			thief.send(h.bytes())
			thief.expectEnd()
		}
		c.exchangeCommand(conn, 1)
		c.ping()
		if n := len(g.handler.all("disconnected")); n != 0 {
			t.Errorf("%d disconnections", n)
		}
	}
}

// However many connections of one station come at once: afterwards one of them
// lives, the handler heard of it last, and every other one is over.
func TestServer_takeover_storm(t *testing.T) {
	const rounds, atOnce = 60, 6
	g := open(t, setup{})
	for round := range rounds {
		clients := make([]*client, atOnce)
		var connecting sync.WaitGroup
		for i := range clients {
			clients[i] = g.dial()
			connecting.Go(func() {
				clients[i].try(helloOf(1, byte(4+i%2)).bytes())
				_, _, _ = clients[i].read()
			})
		}
		connecting.Wait()
		g.handler.await(t, "one live connection", func() bool {
			return len(g.handler.live()) == 1 && g.server.Stats().Open == 1
		})
		conn := g.connOf(1)
		connected := g.handler.all("connected")
		if last := connected[len(connected)-1]; last.conn != conn {
			t.Fatalf("round %d: the handler heard last of a connection that is over", round)
		}
		survivors := 0
		for _, c := range clients {
			if c.conn.LocalAddr().String() == conn.Remote() {
				survivors++
				c.version = conn.Version()
				c.subscribe(1, 1)
				c.exchangeCommand(conn, 1)
				continue
			}
			c.expectEnd()
		}
		if survivors != 1 {
			t.Fatalf("round %d: %d survivors", round, survivors)
		}
	}
	if connected, over := len(g.handler.all("connected")), len(g.handler.all("disconnected")); connected != over+1 {
		t.Errorf("%d connected, %d disconnected", connected, over)
	}
}

// The handler hears of the connections of one station in the order of their
// take-overs, even when it dawdles over the first.
func TestServer_takeover_order(t *testing.T) {
	handler := newRecorder()
	entered, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	handler.onConnect = func(*broker.Conn) {
		once.Do(func() {
			close(entered)
			<-goOn
		})
	}
	g := open(t, setup{handler: handler})
	first := g.connect(1, 4)
	<-entered
	second := g.connect(1, 4) // has taken over, and waits for the handler
	first.expectEnd()
	close(goOn)
	second.ping()
	connected := handler.all("connected")
	if len(connected) != 2 || connected[1].conn.Remote() != second.conn.LocalAddr().String() {
		t.Errorf("connected: %+v", connected)
	}
	if e := handler.awaitEvent(t, "disconnected", 1); e.conn != connected[0].conn {
		t.Error("the wrong connection ended")
	}
}

// A command that the first connection did not acknowledge does not come to the
// second.
func TestServer_takeover_noRedelivery(t *testing.T) {
	g := open(t, setup{})
	_, conn := g.connectAndSubscribe(1, 4, 1)
	if err := conn.Send(1, 1, []byte("open"), soon()); err != nil {
		t.Fatal(err)
	}
	c := g.dial()
	h := helloOf(1, 4)
	h.flags &^= 0x02
	if body := c.greet(h); !bytes.Equal(body, []byte{0, 0}) {
		t.Errorf("CONNACK %x", body)
	}
	c.subscribe(1, 1)
	c.ping()
}
