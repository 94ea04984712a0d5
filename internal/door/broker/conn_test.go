package broker_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/test/await"
)

func TestConn_Send(t *testing.T) {
	for _, version := range []byte{4, 5} {
		for _, qos := range []byte{0, 1} {
			g := open(t, setup{})
			c, conn := g.connectAndSubscribe(42, version, qos)
			if conn.Version() != version || conn.Generation() != 7 || conn.Station() != 42 ||
				conn.Remote() != c.conn.LocalAddr().String() {
				t.Errorf("connection %v %d %d from %s", conn.Station(), conn.Version(), conn.Generation(), conn.Remote())
			}
			if err := conn.Send(513, qos, says(`{"id":"x"}`), await.Deadline()); err != nil {
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
		if err := conn.Send(1, 1, says(payload), await.Deadline()); err != nil {
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
	expect(broker.ErrNotSubscribed, 0, 1, await.Deadline())
	c.subscribe(1, 0)
	expect(broker.ErrNotSubscribed, 1, 1, await.Deadline())
	c.subscribe(1, 1)
	expect(broker.ErrLate, 1, 1, time.Now())
	expect(broker.ErrLate, 1, 1, time.Now().Add(-time.Hour))
	expect(broker.ErrNotSubscribed, 2, 1, await.Deadline())
	c.send(packet(0xA2, u16(9), text(commandTopic(1))))
	c.expect(0xB0)
	expect(broker.ErrNotSubscribed, 0, 1, await.Deadline())
	c.ping() // nothing came in between
	c.close()
	g.handler.awaitEvent(t, "disconnected", 1)
	expect(broker.ErrClosed, 1, 1, await.Deadline())
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
				err = errors.Join(err, conn.Send(uint16(1+n*each+i), 1, says("open"), await.Deadline()))
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

// A station that does not read is reset when the write has taken its time, and no
// other station waits for it.
func TestConn_Send_stalled(t *testing.T) {
	bubble(t, broker.Limits{WriteTimeout: 2 * time.Second}, func(t *testing.T, g *gate, p *pipes) {
		c, other := p.dial(t), p.dial(t)
		c.connect(1, 4)
		c.subscribe(1, 1)
		other.connect(2, 4)
		other.subscribe(2, 1)
		stuck, conn, stalled := g.connOf(1), g.connOf(2), make(chan error, 1)
		start := time.Now()
		go func() { stalled <- stuck.Send(1, 1, says("open"), start.Add(time.Hour)) }()
		synctest.Wait()
		other.pull(t, func() error { return conn.Send(77, 1, says("open"), start.Add(time.Hour)) })
		other.ping()
		if took := time.Since(start); took != 0 {
			t.Errorf("the other station waited for %v", took)
		}
		if err := <-stalled; err == nil || time.Since(start) != 2*time.Second {
			t.Errorf("gave %v after %v", err, time.Since(start))
		}
		if e := g.handler.awaitEvent(t, "disconnected", 1); e.conn != stuck || e.text != "did not take what was sent to it" {
			t.Errorf("station %d disconnected: %s", e.conn.Station(), e.text)
		}
		other.ping()
	})
}

// narrow listens for connections that take little before their peer reads.
func narrow(t *testing.T) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10) })
	}}
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// endless is a payload that does not fit between a narrow listener and a station that
// does not read.
func endless() []byte { return make([]byte, 2<<20) }

// stuckSend begins a Send that does not end by itself, and returns where its error comes.
func stuckSend(c *client, conn *broker.Conn) <-chan error {
	failed := make(chan error, 1)
	go func() { failed <- conn.Send(1, 1, says(endless()), await.Deadline()) }()
	c.expectFirst(0x32)
	return failed
}

// expectFirst reads the first byte of a packet.
func (c *client) expectFirst(header byte) {
	c.t.Helper()
	if got, err := c.in.ReadByte(); err != nil || got != header {
		c.t.Fatalf("%#x, %v; want %#x", got, err, header)
	}
}

// A command that is not written whole by its deadline ends the connection in a reset.
func TestConn_Send_stalledDeadline(t *testing.T) {
	g := open(t, setup{listeners: []broker.Listener{{Net: narrow(t)}}})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	_ = c.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	var deadline time.Time
	err := broker.ErrLate
	for errors.Is(err, broker.ErrLate) { // again where this process did not run before the deadline
		deadline = time.Now().Add(200 * time.Millisecond)
		err = conn.Send(1, 1, says(endless()), deadline)
	}
	if err == nil || time.Now().Before(deadline) {
		t.Errorf("ended early with %v", err)
	}
	if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "did not take what was sent to it" {
		t.Errorf("reason %q", e.text)
	}
	c.expectReset()
}

// Reset does not wait for a write that is stuck.
func TestConn_Reset_whileBlocked(t *testing.T) {
	g := open(t, setup{listeners: []broker.Listener{{Net: narrow(t)}}})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	_ = c.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	failed := stuckSend(c, conn)
	conn.Reset("enough")
	if err := await.Receive(t, "the stuck Send", failed); err == nil {
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
	if err := conn.Send(1, 1, says(""), await.Deadline()); !errors.Is(err, broker.ErrClosed) {
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
				if err := conn.Send(1, 1, says(make([]byte, 8000)), await.Deadline()); err != nil {
					t.Fatal(err)
				}
			}
			end(g, c)
			await.Until(t, "the end", func() bool { _, subscribed := conn.Subscribed(); return !subscribed })
			c.expectReset()
		})
	}
}
