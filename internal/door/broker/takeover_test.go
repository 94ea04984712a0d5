package broker_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/test/await"
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
		c.subscribe(1, 1)
		c.exchangeCommand(g.connOf(1), 1)
		if g.connOf(1) == oldConn {
			t.Error("the old connection lives")
		}
		if n := len(g.handler.all("disconnected")); n != 0 {
			t.Errorf("MQTT %d: the station was seen offline %d times during a take-over", version, n)
		}
	}
}

// A station acknowledges a command and connects again at once: what its kernel has sent over the
// old connection by then is read, although the gateway had not come to it.
func TestServer_takeover_readsTheRest(t *testing.T) {
	handler := newRecorder()
	entered := make(chan struct{})
	handler.onReport = func(c *broker.Conn, _ string) {
		close(entered)
		await.Until(t, "the take-over", c.Replaced)
	}
	g := open(t, setup{handler: handler})
	old, conn := g.connectAndSubscribe(1, 5, 1)
	if err := conn.Send(7, 1, says("open"), await.Deadline()); err != nil {
		t.Fatal(err)
	}
	old.send(publication(5, 0, "stations/1/report", 0, "{}"))
	<-entered
	old.send(packet(0x40, u16(7)))
	g.connect(1, 4)
	old.expect(0x32) // the command
	if got := old.expectEnd(); fmt.Sprint(got) != fmt.Sprint([][]byte{{0xE0, 0x8E, 0}}) {
		t.Errorf("the old connection ends with %x", got)
	}
	if e := handler.all("ack"); len(e) != 1 || e[0].conn != conn || e[0].id != 7 {
		t.Errorf("acknowledged: %+v", e)
	}
	if n := len(handler.all("disconnected")); n != 0 {
		t.Errorf("the station was seen offline %d times", n)
	}
}

// A connection that took over and was not established takes the one before it along.
func TestServer_takeover_notEstablished(t *testing.T) {
	handler := newRecorder()
	handler.refuse = func(*broker.Conn) error {
		if len(handler.all("connected")) > 0 {
			return errors.New("not any more")
		}
		return nil
	}
	g := open(t, setup{handler: handler})
	old, oldConn := g.connectAndSubscribe(1, 4, 1)
	g.dial().send(helloOf(1, 4).bytes())
	old.expectEnd()
	if e := handler.awaitEvent(t, "disconnected", 1); e.conn != oldConn || e.text != "refused by the gateway" {
		t.Errorf("%+v", e)
	}
	g.dial().send(helloOf(1, 4).bytes())
	_ = g.stop()
	if n := len(handler.all("disconnected")); n != 1 {
		t.Errorf("%d disconnections", n)
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
		connecting.Wait() // each of them has taken over, and all but the last are over
		var survivors []*client
		for i, c := range clients {
			if c.version = byte(4 + i%2); c.survives() {
				survivors = append(survivors, c)
			}
		}
		if len(survivors) != 1 {
			t.Fatalf("round %d: %d survivors", round, len(survivors))
		}
		await.Until(t, "one live connection", func() bool { return len(g.handler.live()) == 1 })
		conn := g.connOf(1)
		connected := g.handler.all("connected")
		if last := connected[len(connected)-1]; last.conn != conn {
			t.Fatalf("round %d: the handler heard last of a connection that is over", round)
		}
		if survivor := survivors[0].conn.LocalAddr().String(); conn.Remote() != survivor {
			t.Fatalf("round %d: the handler knows %s, %s survives", round, conn.Remote(), survivor)
		}
		survivors[0].subscribe(1, 1)
		survivors[0].exchangeCommand(conn, 1)
	}
	if n := len(g.handler.all("disconnected")); n != 0 {
		t.Errorf("the station was seen offline %d times", n)
	}
}

// The handler hears of the connections of one station in the order of their
// take-overs, even when it dawdles over the first.
func TestServer_takeover_order(t *testing.T) {
	handler := newRecorder()
	entered, proceed := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	handler.onConnect = func(*broker.Conn) {
		if calls.Add(1) == 1 {
			close(entered)
			<-proceed
		}
	}
	g := open(t, setup{handler: handler})
	first := g.connect(1, 4)
	<-entered
	second := g.connect(1, 4) // has taken over
	await.Until(t, "the second waits for the handler", func() bool { return calls.Load() > 1 || waitsForOrder() })
	if calls.Load() > 1 {
		t.Error("the second has overtaken the first")
	}
	close(proceed)
	first.expectEnd()
	second.ping()
	connected := handler.all("connected")
	if len(connected) != 2 || connected[1].conn.Remote() != second.conn.LocalAddr().String() {
		t.Errorf("connected: %+v", connected)
	}
	if n := len(handler.all("disconnected")); n != 0 {
		t.Errorf("the station was seen offline %d times", n)
	}
}

// waitsForOrder reports whether an established connection waits for the one before it.
func waitsForOrder() bool {
	stacks := make([]byte, 1<<20)
	for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		if bytes.Contains(stack, []byte("[sync.Mutex.Lock")) && bytes.Contains(stack, []byte("OnSessionEstablished(")) {
			return true
		}
	}
	return false
}

// A connection that is held up while it takes over does not harm the one that takes
// over from it.
func TestServer_takeover_overtaken(t *testing.T) {
	bubble(t, broker.Limits{WriteTimeout: time.Minute}, func(t *testing.T, g *gate, p *pipes) {
		first := p.dial(t)
		first.connect(1, 4)
		first.subscribe(1, 1)
		stuck, conn := make(chan error, 1), g.connOf(1)
		go func() { stuck <- conn.Send(1, 1, says("open"), await.Deadline()) }()
		synctest.Wait()
		second := p.dial(t)
		second.send(helloOf(1, 4).bytes()) // waits for the stuck write of the first
		synctest.Wait()
		third := p.dial(t)
		third.send(helloOf(1, 4).bytes()) // waits for the second
		if body := third.expect(0x20); body[1] != 0 {
			t.Errorf("CONNACK %x", body)
		}
		if _, lives := conn.Subscribed(); lives {
			t.Error("the third is acknowledged while the first lives")
		}
		second.expectEnd()
		third.ping()
		if err := <-stuck; err == nil {
			t.Error("the stuck Send gave no error")
		}
		synctest.Wait()
		if live := g.handler.live(); len(live) != 1 {
			t.Errorf("%d live connections", len(live))
		}
	})
}

// A command that the first connection did not acknowledge does not come to the
// second.
func TestServer_takeover_noRedelivery(t *testing.T) {
	g := open(t, setup{})
	_, conn := g.connectAndSubscribe(1, 4, 1)
	if err := conn.Send(1, 1, says("open"), await.Deadline()); err != nil {
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
