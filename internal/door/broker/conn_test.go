package broker_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"gatehouse/internal/door/broker"
)

// soon is a deadline that no test reaches.
func soon() time.Time { return time.Now().Add(patience) }

func TestConn_Send(t *testing.T) {
	for _, version := range []byte{4, 5} {
		for _, qos := range []byte{0, 1} {
			g := open(t, setup{})
			c, conn := g.connectAndSubscribe(42, version, qos)
			if conn.Version() != version || conn.Generation() != 7 || conn.Station() != 42 ||
				conn.Remote() != c.conn.LocalAddr().String() {
				t.Errorf("connection %v %d %d from %s", conn.Station(), conn.Version(), conn.Generation(), conn.Remote())
			}
			if err := conn.Send(513, qos, says(`{"id":"x"}`), soon()); err != nil {
				t.Fatal(err)
			}
			want := command{topic: "stations/42/command", payload: `{"id":"x"}`}
			if qos > 0 {
				want.id = 513
			}
			if got := c.readCommand(qos); got != want {
				t.Errorf("MQTT %d, QoS %d: %+v, want %+v", version, qos, got, want)
			}
			c.ping()
		}
	}
}

func TestConn_Send_longCommand(t *testing.T) {
	g := open(t, setup{})
	c, conn := g.connectAndSubscribe(42, 4, 1)
	for _, size := range []int{0, 100, 101, 102, 127, 128, 5000, 20000} {
		payload := make([]byte, size)
		if err := conn.Send(1, 1, says(payload), soon()); err != nil {
			t.Fatal(err)
		}
		if got := c.readCommand(1); len(got.payload) != size {
			t.Errorf("%d bytes arrived of %d", len(got.payload), size)
		}
	}
}

func TestConn_Send_refused(t *testing.T) {
	g := open(t, setup{})
	c := g.connect(1, 4)
	conn := g.connOf(1)
	expect := func(want error, qos byte, id uint16, deadline time.Time) {
		t.Helper()
		if err := conn.Send(id, qos, says("open"), deadline); !errors.Is(err, want) {
			t.Errorf("Send gave %v, want %v", err, want)
		}
	}
	expect(broker.ErrNotSubscribed, 0, 1, soon())
	c.subscribe(1, 0)
	expect(broker.ErrNotSubscribed, 1, 1, soon())
	c.subscribe(1, 1)
	expect(broker.ErrLate, 1, 1, time.Now())
	expect(broker.ErrLate, 1, 1, time.Now().Add(-time.Hour))
	expect(broker.ErrNotSubscribed, 2, 1, soon())
	c.send(packet(0xA2, u16(9), text(commandTopic(1))))
	c.expect(0xB0)
	expect(broker.ErrNotSubscribed, 0, 1, soon())
	c.ping() // nothing came in between
	c.close()
	g.handler.awaitEvent(t, "disconnected", 1)
	expect(broker.ErrClosed, 1, 1, soon())
}

func TestConn_Subscribed(t *testing.T) {
	for _, version := range []byte{4, 5} {
		g := open(t, setup{})
		c := g.connect(1, version)
		conn := g.connOf(1)
		expect := func(when string, wantQoS byte, wantOK bool) {
			t.Helper()
			if qos, ok := conn.Subscribed(); qos != wantQoS || ok != wantOK {
				t.Errorf("%s: Subscribed gave %d, %v", when, qos, ok)
			}
		}
		expect("at first", 0, false)
		for _, qos := range []byte{0, 2, 1} {
			c.subscribe(1, qos)
			expect("subscribed", min(qos, 1), true)
		}
		c.send(packet(0xA2, u16(9), properties(version), text("stations/2/command")))
		c.expect(0xB0)
		expect("unsubscribed from another topic", 1, true)
		c.send(packet(0xA2, u16(9), properties(version), text(commandTopic(1))))
		c.expect(0xB0)
		expect("unsubscribed", 0, false)
		c.subscribe(1, 1)
		expect("subscribed again", 1, true)
	}
}

// A station of MQTT 5 says how much it takes.
func TestConn_Send_stationsOwnLimits(t *testing.T) {
	g := open(t, setup{})
	c := g.dial()
	h := helloOf(1, 5)
	h.properties = join([]byte{0x21}, u16(2), []byte{0x27, 0, 0, 0, 200}) // Receive Maximum 2, Maximum Packet Size 200
	c.greet(h)
	c.subscribe(1, 1)
	conn := g.connOf(1)
	if n := conn.ReceiveMaximum(); n != 2 {
		t.Errorf("it takes %d", n)
	}
	if _, conn := g.connectAndSubscribe(2, 5, 1); conn.ReceiveMaximum() != 0 {
		t.Errorf("one that says nothing takes %d", conn.ReceiveMaximum())
	}
}

func TestConn_Send_concurrently(t *testing.T) {
	g := open(t, setup{})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	const senders, each = 8, 50
	failed := make(chan error, senders)
	for n := range senders {
		go func() {
			var err error
			for i := range each {
				err = errors.Join(err, conn.Send(uint16(1+n*each+i), 1, says("open"), soon()))
			}
			failed <- err
		}()
	}
	pongs := 0
	go c.try([]byte{0xC0, 0, 0xC0, 0, 0xC0, 0}) // mochi writes in between
	ids := make(map[uint16]bool)
	for len(ids) < senders*each || pongs < 3 {
		header, body, err := c.read()
		switch {
		case err != nil:
			t.Fatal(err)
		case header == 0xD0:
			pongs++
		case header == 0x32:
			ids[uint16(body[len(body)-6])<<8|uint16(body[len(body)-5])] = true
		default:
			t.Fatalf("packets are mixed: %#x %x", header, body)
		}
	}
	for range senders {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// stall connects a station that does not read, and fills the buffers towards it.
// It returns the error that ended that. Each write has a deadline of its own: filling
// takes as long as it does.
func stall(g *gate, deadline func() time.Time) (*client, *broker.Conn, error) {
	g.t.Helper()
	c, conn := g.connectAndSubscribe(1, 4, 1)
	_ = c.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	for {
		if err := conn.Send(1, 1, says(make([]byte, 8000)), deadline()); err != nil {
			return c, conn, err
		}
	}
}

// A station that does not read is reset when the write has taken its time, and no
// other station waits for it.
func TestConn_Send_stalled(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{WriteTimeout: 2 * time.Second}}) // time enough for the other's, too
	stalled := make(chan error, 1)
	var c *client
	go func() {
		var err error
		c, _, err = stall(g, soon)
		stalled <- err
	}()
	other, conn := g.connectAndSubscribe(2, 4, 1)
	served := 0
	for done := false; !done; served++ {
		other.exchangeCommand(conn, 2)
		select {
		case err := <-stalled:
			if err == nil {
				t.Fatal("no error")
			}
			done = true
		default:
		}
	}
	e := g.handler.awaitEvent(t, "disconnected", 1)
	if e.conn.Station() != 1 || e.text != "did not take what was sent to it" {
		t.Errorf("station %d disconnected: %s", e.conn.Station(), e.text)
	}
	if served < 2 {
		t.Errorf("the other station was served %d times meanwhile", served)
	}
	c.expectReset()
}

func TestConn_Send_stalledDeadline(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{WriteTimeout: time.Hour}})
	var deadline time.Time
	c, _, err := stall(g, func() time.Time {
		deadline = time.Now().Add(time.Second)
		return deadline
	})
	if err == nil || time.Now().Before(deadline) {
		t.Errorf("ended early with %v", err)
	}
	g.handler.awaitEvent(t, "disconnected", 1)
	c.expectReset()
}

// Reset does not wait for a write that is stuck.
func TestConn_Reset_whileBlocked(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{WriteTimeout: time.Hour}})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	_ = c.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	progress, failed := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		for {
			if err := conn.Send(1, 1, says(make([]byte, 8000)), soon()); err != nil {
				failed <- err
				return
			}
			progress <- struct{}{}
		}
	}()
	for stuck := false; !stuck; {
		select {
		case <-progress:
		case <-time.After(200 * time.Millisecond):
			stuck = true
		}
	}
	conn.Reset("enough")
	if err := <-failed; err == nil {
		t.Error("the stuck Send gave no error")
	}
	if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "enough" {
		t.Errorf("reason %q", e.text)
	}
	c.expectReset()
}

func TestConn_Reset(t *testing.T) {
	g := open(t, setup{})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	conn.Reset("enough")
	conn.Reset("again")
	c.expectReset()
	if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "enough" || e.conn != conn {
		t.Errorf("%+v", e)
	}
	if err := conn.Send(1, 1, says(""), soon()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Send gave %v", err)
	}
	g.wellServed()
}

// However a connection ends: while a command may be under way, it ends in a reset.
func TestConn_endsInReset(t *testing.T) {
	ends := map[string]func(g *gate, c *client){
		"breach":    func(_ *gate, c *client) { c.try(publication(4, 0, "stations/2/report", 0, "{}")) },
		"malformed": func(_ *gate, c *client) { c.try([]byte{0xF0, 0}) },
		"left":      func(_ *gate, c *client) { c.try([]byte{0xE0, 0}) },
		"taken over": func(g *gate, _ *client) {
			g.connect(1, 4)
		},
		"stopped": func(g *gate, _ *client) {
			if err := g.stop(); err != nil {
				g.t.Error(err)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			g := open(t, setup{})
			c, conn := g.connectAndSubscribe(1, 4, 1)
			_ = c.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			for range 40 { // more than the station's kernel takes, less than both take
				if err := conn.Send(1, 1, says(make([]byte, 8000)), soon()); err != nil {
					t.Fatal(err)
				}
			}
			end(g, c)
			g.handler.await(t, "the end", func() bool { _, subscribed := conn.Subscribed(); return !subscribed })
			c.expectReset()
		})
	}
}
