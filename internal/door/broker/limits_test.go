package broker_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// Two thousand stations from one address connect at one moment, all before the first sends
// its CONNECT, and all are served.
func TestServer_stormOfStations(t *testing.T) {
	const stations = 2000
	g := open(t, setup{})
	clients := make([]*client, stations)
	for i := range clients {
		clients[i] = g.dial()
	}
	await.Until(t, "all connections", func() bool { return g.server.Stats().Connecting == stations })
	var connecting sync.WaitGroup
	for i, c := range clients {
		connecting.Go(func() {
			c.try(helloOf(site.StationID(i+1), byte(4+i%2)).bytes())
			if header, body, err := c.read(); err != nil || header != 0x20 || body[1] != 0 {
				t.Errorf("station %d: %#x %x, %v", i+1, header, body, err)
			}
		})
	}
	connecting.Wait()
	await.Until(t, "all stations", func() bool { return len(g.handler.live()) == stations })
	if s := g.server.Stats(); s.Open != stations || s.Connecting != 0 {
		t.Errorf("%+v", s)
	}
}

// Silent connections, as many as there may be and more, keep no station out.
func TestServer_slowLoris(t *testing.T) {
	limits := broker.Limits{Connections: 50, ConnectTimeout: 5 * time.Second}
	bubble(t, limits, func(t *testing.T, g *gate, p *pipes) {
		for range 200 {
			p.dial(t).try([]byte{0x10}) // it may be evicted already
		}
		c := p.dial(t)
		c.connect(1, 4)
		c.subscribe(1, 1)
		conn := g.connOf(1)
		c.pull(t, func() error { return conn.Send(77, 1, says("open"), await.Deadline()) })
		time.Sleep(limits.ConnectTimeout)
		synctest.Wait()
		if want := (broker.Stats{Open: 1}); g.server.Stats() != want {
			t.Errorf("%+v after the time of the silent, want %+v", g.server.Stats(), want)
		}
		c.ping()
	})
}

// A newcomer is let in at once: of too many connections without a CONNECT the oldest is
// evicted.
func TestServer_slowLoris_evictsOldest(t *testing.T) {
	bubble(t, broker.Limits{Connections: 3}, func(t *testing.T, g *gate, p *pipes) {
		start := time.Now()
		var silent []*client
		for range 3 {
			silent = append(silent, p.dial(t))
		}
		c := p.dial(t)
		c.connect(1, 4)
		if n := g.refusals("mqtt-connecting"); n != "1" {
			t.Errorf("%s were evicted", n)
		}
		silent[0].expectEnd()
		silent[1].connect(2, 4) // still may
		p.dial(t).connect(3, 4)
		silent[2].expectEnd()
		if n := g.refusals("mqtt-connecting"); n != "2" {
			t.Errorf("%s were evicted", n)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("waited for %v", took)
		}
	})
}

// Connected stations keep their places; who has not sent a CONNECT is evicted for a
// newcomer.
func TestServer_tooManyConnections(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{Connections: 3}})
	first, second, silent := g.connect(1, 4), g.connect(2, 5), g.dial()
	await.Until(t, "three connections", func() bool { return g.server.Stats().Open == 3 })
	g.connect(3, 4).ping()
	silent.expectEnd()
	if n := g.refusals("mqtt-connecting"); n != "1" {
		t.Errorf("%s were evicted", n)
	}
	g.fill(3)
	g.expectNoRoom()
	if n := g.refusals("mqtt-connections"); n == "0" {
		t.Error("no refusal was counted")
	}
	first.ping()
	second.ping()
}

// fill opens connections until loopback's reserve behind that many connections is full
// of stations.
func (g *gate) fill(open int) {
	g.t.Helper()
	for id := site.StationID(100); g.server.Stats().Open < open+4; id++ {
		g.connect(id, 4)
	}
}

// expectNoRoom opens a connection that is reset at once, perhaps so soon that the
// dial notices.
func (g *gate) expectNoRoom() {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err == nil {
		newClient(g.t, conn).expectReset()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		g.t.Error(err)
	}
}

// A crowd behind one address costs another one nothing.
func TestServer_tooManyConnections_otherAddress(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{Connections: 3}})
	from := func(last byte) *client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
		conn, err := dialer.Dial("tcp", g.address)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	}
	other := from(2)
	await.Until(t, "it", func() bool { return g.server.Stats().Connecting == 1 })
	for range 20 {
		g.dial()
	}
	await.Until(t, "eighteen evictions", func() bool { return g.refusals("mqtt-connecting") == "18" })
	other.connect(3, 4)
}

// Beyond 200 packets at once and 50 in a second a station is slowed, not ended,
// and nothing that it sends is lost.
func TestServer_packetRate(t *testing.T) {
	for _, version := range []byte{4, 5} {
		bubble(t, broker.Limits{}, func(t *testing.T, g *gate, p *pipes) {
			c := p.dial(t)
			c.connect(1, version)
			start := time.Now()
			flood := bytes.Repeat(publication(version, 0, "stations/1/report", 0, "not json"), 199+500) // CONNECT was one
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				c.try(flood)
			}()
			synctest.Wait()
			if n := len(g.handler.all("report")); n != 199 {
				t.Errorf("%d reports were heard at once", n)
			}
			<-sent // two writers of a pipe would keep the time from passing
			c.ping()
			if took := time.Since(start); took.Round(time.Millisecond) != 501*time.Second/50 {
				t.Errorf("MQTT %d: took %v", version, took)
			}
			if n := len(g.handler.all("report")); n != 699 {
				t.Errorf("%d reports were heard", n)
			}
			if n := g.counted("gatehouse_mqtt_slowed_total"); n != "501" {
				t.Errorf("counted %s times", n)
			}
			if lines := strings.Count(g.log.String(), "slowed"); lines != 1 {
				t.Errorf("%d lines in the log", lines)
			}
		})
	}
}

// However long a station has to wait, it is not taken for silent.
func TestServer_packetRate_keepalive(t *testing.T) {
	bubble(t, broker.Limits{PacketsPerSecond: 0.01}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		hello := helloOf(1, 4)
		hello.keepalive = 10
		c.greet(hello)
		start := time.Now()
		go c.try(publication(4, 0, "stations/1/report", 0, "{}"))
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if n := len(g.handler.all("report")); n != 1 {
			t.Errorf("%d reports after %v", n, time.Since(start))
		}
	})
}

// A station that is being slowed can be ended at once.
func TestServer_packetRate_ends(t *testing.T) {
	bubble(t, broker.Limits{PacketsPerSecond: 0.01}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		c.connect(1, 4)
		c.send([]byte{0xC0, 0})
		synctest.Wait()
		start := time.Now()
		g.connOf(1).Reset("enough")
		if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "enough" || time.Since(start) > time.Second {
			t.Errorf("%q after %v", e.text, time.Since(start))
		}
	})
}

// What answers a command is not held against the station.
func TestServer_packetRate_answers(t *testing.T) {
	bubble(t, broker.Limits{}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		c.connect(1, 4)
		c.subscribe(1, 1)
		conn := g.connOf(1)
		for n := range 1000 {
			c.pull(t, func() error { return conn.Send(uint16(n+1), 1, says("open"), await.Deadline()) })
			c.send(packet(0x40, u16(uint16(n+1))), publication(4, 0, "stations/1/result", 0, "{}"))
		}
		for range 198 { // CONNECT and SUBSCRIBE were two
			c.ping()
		}
		if n := g.counted("gatehouse_mqtt_slowed_total"); n != "0" {
			t.Errorf("%s packets had to wait", n)
		}
		c.ping()
		if n := g.counted("gatehouse_mqtt_slowed_total"); n != "1" {
			t.Errorf("%s packets had to wait, want the last", n)
		}
	})
}

// pull reads a command while it is sent: a pipe has no buffer.
func (c *client) pull(t testing.TB, send func() error) {
	t.Helper()
	failed := make(chan error, 1)
	go func() { failed <- send() }()
	c.readCommand(1)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// A packet of 8 KiB is the largest; a larger one ends the connection before it is
// read.
func TestServer_packetSize(t *testing.T) {
	report := func(version byte, whole int) []byte {
		overhead := len(publication(version, 0, "stations/1/report", 0, string(make([]byte, 200)))) - 200
		p := publication(version, 0, "stations/1/report", 0, string(bytes.Repeat([]byte("x"), whole-overhead)))
		if len(p) != whole {
			t.Fatalf("%d bytes, want %d", len(p), whole)
		}
		return p
	}
	for _, version := range []byte{4, 5} {
		g := open(t, setup{})
		c := g.connect(1, version)
		c.send(report(version, 8<<10))
		if e := g.handler.awaitEvent(t, "report", 1); len(e.text) < 8100 {
			t.Errorf("%d bytes were heard", len(e.text))
		}
		c.ping()
		c.send(report(version, 8<<10+1)[:5]) // its header is enough
		packets := c.expectEnd()
		if version == 5 && (len(packets) != 1 || !bytes.Equal(packets[0], []byte{0xE0, 0x95, 0})) {
			t.Errorf("answered %x", packets)
		}
		if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "sent a packet that is too large" {
			t.Errorf("reason %q", e.text)
		}
		if n := g.refusals("mqtt-packet-size"); n != "1" {
			t.Errorf("counted %s times", n)
		}
	}
}

// A second writer waits for the first no longer than to its own deadline.
func TestConn_Send_waitsForTurn(t *testing.T) {
	bubble(t, broker.Limits{WriteTimeout: 10 * time.Second}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		c.connect(1, 4)
		c.subscribe(1, 1)
		conn := g.connOf(1)
		synctest.Wait()
		start := time.Now()
		first := make(chan error, 1)
		go func() { first <- conn.Send(1, 1, says("open"), start.Add(3*time.Second)) }() // nobody reads
		synctest.Wait()
		if err := conn.Send(2, 1, says("open"), start.Add(time.Second)); err != broker.ErrLate {
			t.Errorf("the second gave %v", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("the second waited for %v", got)
		}
		if err := <-first; err == nil || time.Since(start) != 3*time.Second {
			t.Errorf("the first gave %v after %v", err, time.Since(start))
		}
		if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "did not take what was sent to it" {
			t.Errorf("reason %q", e.text)
		}
	})
}

func TestConn_Send_writeTimeout(t *testing.T) {
	bubble(t, broker.Limits{WriteTimeout: 2 * time.Second}, func(t *testing.T, g *gate, p *pipes) {
		c := p.dial(t)
		c.connect(1, 4)
		c.subscribe(1, 1)
		start := time.Now()
		if err := g.connOf(1).Send(1, 1, says("open"), start.Add(time.Hour)); err == nil || time.Since(start) != 2*time.Second {
			t.Errorf("gave %v after %v", err, time.Since(start))
		}
	})
}
