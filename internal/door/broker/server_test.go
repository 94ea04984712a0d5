package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// The end closes everything: connections that said nothing, half a CONNECT, live
// ones in both versions; and the listener.
func TestServer_Serve_stops(t *testing.T) {
	l := listen(t)
	g := open(t, setup{listeners: []broker.Listener{{Net: l}}})
	silent, half := g.dial(), g.dial()
	half.send(helloOf(1, 4).bytes()[:10])
	four, five := g.connect(4, 4), g.connect(5, 5)
	await.Until(t, "four connections", func() bool { return g.server.Stats().Open == 4 })
	g.handler.awaitEvent(t, "connected", 2) // comes after the CONNACK, and the end is told to no other
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	for _, c := range []*client{silent, half, four} {
		if packets := c.expectEnd(); len(packets) > 0 {
			t.Errorf("answered %x", packets)
		}
	}
	if packets := five.expectEnd(); len(packets) != 1 || !bytes.Equal(packets[0], []byte{0xE0, 0x8B, 0}) {
		t.Errorf("MQTT 5 was told %x", packets)
	}
	for n := range 2 {
		if e := g.handler.awaitEvent(t, "disconnected", n+1); e.text != "the gateway stops" {
			t.Errorf("reason %q", e.text)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener after the end: %v", err)
	}
	if s := g.server.Stats(); s.Open != 0 || s.Connecting != 0 {
		t.Errorf("%+v", s)
	}
}

// lame is a listener whose accepts fail as often as it is told to.
type lame struct {
	*pipes
	failures atomic.Int32
	err      error
}

func (l *lame) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, l.err
	}
	return l.pipes.Accept()
}

// Failing accepts, for example because the descriptors are used up, are tried again
// soon, but not at once.
func TestServer_Serve_acceptFails(t *testing.T) {
	var l *lame
	want := func() setup {
		l = &lame{pipes: newPipes(), err: &net.OpError{Op: "accept", Err: syscall.EMFILE}}
		l.failures.Store(12)
		return setup{listeners: []broker.Listener{{Net: l}}}
	}
	bubbleWith(t, want, func(t *testing.T, g *gate, _ *pipes) {
		start := time.Now()
		l.dial(t).connect(1, 4)
		if got, want := time.Since(start), 12*50*time.Millisecond; got != want {
			t.Errorf("accepted again after %v, want %v", got, want)
		}
		if !strings.Contains(g.log.String(), "too many open files") {
			t.Error("the failure was not logged")
		}
	})
}

// A listener that somebody closes is an error, and ends the others.
func TestServer_Serve_listenerClosed(t *testing.T) {
	server := broker.New(broker.Config{Authenticator: everyone{}, Handler: newRecorder()}.Filled())
	first, second := listen(t), listen(t)
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(context.Background(), broker.Listener{Net: first}, broker.Listener{Net: second})
	}()
	first.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve gave %v", err)
	}
	if _, err := second.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the other listener after the end: %v", err)
	}
}

func TestServer_Serve_severalListeners(t *testing.T) {
	listeners := []net.Listener{listen(t), listen(t)}
	g := open(t, setup{listeners: []broker.Listener{{Net: listeners[0]}, {Net: listeners[1]}}})
	for i, l := range listeners {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		newClient(t, conn).connect(site.StationID(i+1), 4)
	}
	await.Until(t, "both", func() bool { return len(g.handler.live()) == 2 })
}

// A panic in what a packet sets off ends that connection and nothing else.
func TestServer_panic(t *testing.T) {
	handler := newRecorder()
	handler.onReport = func(c *broker.Conn, text string) { panic("the payload " + text) }
	g := open(t, setup{handler: handler})
	other := g.connect(2, 4)
	c := g.connect(1, 4)
	c.subscribe(1, 1)
	c.send(publication(4, 2, "stations/1/report", 5, "XYZZY"))
	c.expectEnd()
	if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "a packet broke its handling" {
		t.Errorf("reason %q", e.text)
	}
	other.ping()
	if n := g.refusals("mqtt-panic"); n != "1" {
		t.Errorf("counted %s times", n)
	}
	if strings.Contains(g.log.String(), "XYZZY") {
		t.Error("the payload was logged")
	}
	g.connect(1, 4).ping()
	if n := len(g.handler.all("disconnected")); n != 1 {
		t.Errorf("%d disconnections", n)
	}
	if clients := g.server.Leftovers(); clients != 0 {
		t.Errorf("the library keeps %d clients", clients)
	}
}

// One goroutine serves a connection, and none is left behind.
func TestServer_goroutines(t *testing.T) {
	g := open(t, setup{})
	g.wellServed()
	await.Until(t, "the end", func() bool { return g.server.Stats().Open == 0 })
	before := runtime.NumGoroutine()
	const stations = 100
	var clients []*client
	for id := range site.StationID(stations) {
		c := g.connect(id+1, 4)
		c.ping()
		clients = append(clients, c)
	}
	await.Until(t, "one goroutine for each", func() bool { return runtime.NumGoroutine() <= before+stations })
	for _, c := range clients {
		c.close()
	}
	await.Until(t, "the end of the goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

func TestServer_metrics(t *testing.T) {
	g := open(t, setup{})
	silent := g.dial()
	g.connect(1, 4)
	want := broker.Stats{Open: 2, Connecting: 1}
	await.Until(t, fmt.Sprintf("%+v", want), func() bool { return g.server.Stats() == want })
	for metric, value := range map[string]string{
		`gatehouse_mqtt_connections{state="open"}`:       "2",
		`gatehouse_mqtt_connections{state="connecting"}`: "1",
	} {
		if got := g.counted(metric); got != value {
			t.Errorf("%s is %s, want %s", metric, got, value)
		}
	}
	silent.close()
}

func TestServer_Accepts(t *testing.T) {
	g := open(t, setup{limits: broker.Limits{Connections: 1}})
	g.connect(1, 4) // it needs no place
	if !g.server.Accepts() {
		t.Error("a broker that serves does not accept")
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	if g.server.Accepts() {
		t.Error("a stopped broker accepts")
	}
}

// What the outside can cause is logged at a bounded rate, and counted in full.
func TestServer_log_bounded(t *testing.T) {
	bubble(t, broker.Limits{}, func(t *testing.T, g *gate, p *pipes) {
		const tries = 100
		for range tries {
			h := helloOf(1, 4)
			h.secret = "SECRET-OF-NOBODY"
			c := p.dial(t)
			c.send(h.bytes())
			c.expectEnd()
		}
		if n := g.refusals("mqtt-secret"); n != fmt.Sprint(tries) {
			t.Errorf("counted %s times", n)
		}
		if lines := strings.Count(g.log.String(), "\n"); lines > 20 {
			t.Errorf("%d lines were logged", lines)
		}
	})
}

// Whatever a station sends, its secret and its payloads are in no line of the log.
func TestServer_log_noSecrets(t *testing.T) {
	const secret, payload = "SECRET-OF-STATION-1", "XYZZYPAYLOAD"
	hostile := [][]byte{
		helloOf(1, 4).bytes(), // a second CONNECT
		publication(4, 0, "stations/2/report", 0, payload),
		publication(4, 0x03, "stations/1/report", 0, payload),
		publication(4, 2, "stations/1/report", 0, payload), // packet id 0
		publication(4, 4, "stations/1/report", 8, payload),
		packet(0x82, u16(0), text(payload), []byte{1}),
		packet(0x82, u16(1), text(payload), []byte{3}),
		packet(0xE1, []byte(payload)),
		packet(0x20, []byte(payload)),
	}
	g := open(t, setup{})
	for _, version := range []byte{4, 5} {
		for _, b := range hostile {
			c := g.connect(1, version)
			c.try(b, []byte{0xE0, 0})
			c.expectEnd()
		}
	}
	await.Until(t, "the end", func() bool { return g.server.Stats().Open == 0 })
	log := g.log.String()
	decimal := strings.Trim(fmt.Sprint([]byte(secret)), "[]")
	for _, bad := range []string{secret, payload, decimal, strings.Trim(fmt.Sprint([]byte(payload)), "[]")} {
		if strings.Contains(log, bad) {
			t.Errorf("the log contains %q:\n%s", bad, log)
		}
	}
	if log == "" {
		t.Error("nothing was logged")
	}
}
