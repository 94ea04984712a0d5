package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) {
	beVictim()
	os.Exit(await.Run(m))
}

// secretOf is the secret of each station of the tests.
func secretOf(id site.StationID) string { return "SECRET-OF-STATION-" + id.String() }

// everyone authenticates every station by its secret, under generation 7.
type everyone struct{}

func (everyone) Authenticate(id site.StationID, secret site.Secret) (uint64, bool) {
	return 7, secret.Reveal() == secretOf(id)
}

// event is one call of the handler.
type event struct {
	kind string // connected, disconnected, report, result, ack
	conn *broker.Conn
	text string // the payload or the reason
	id   uint16
	code byte
}

// recorder is a handler that keeps what it hears.
type recorder struct {
	mu     sync.Mutex // mu guards what follows
	events []event
	heard  map[*broker.Conn]int

	refuse    func(*broker.Conn) error          // what Connected says; nil: nothing
	onReport  func(c *broker.Conn, text string) // runs in Report, after it is recorded
	onConnect func(c *broker.Conn)
	onAck     func()
}

func newRecorder() *recorder {
	return &recorder{heard: make(map[*broker.Conn]int)}
}

func (r *recorder) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) Connected(conn stationlink.Conn) error {
	c := conn.(*broker.Conn)
	if r.onConnect != nil {
		r.onConnect(c)
	}
	if r.refuse != nil {
		if err := r.refuse(c); err != nil {
			return err
		}
	}
	r.add(event{kind: "connected", conn: c})
	return nil
}

func (r *recorder) Disconnected(conn stationlink.Conn, reason string) {
	c := conn.(*broker.Conn)
	r.add(event{kind: "disconnected", conn: c, text: reason})
}

func (r *recorder) Heard(conn stationlink.Conn) {
	c := conn.(*broker.Conn)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[c]++
}

func (r *recorder) Received(conn stationlink.Conn, topic string, payload []byte, again bool) {
	c, kind := conn.(*broker.Conn), topic[strings.LastIndex(topic, "/")+1:]
	r.add(event{kind: kind, conn: c, text: string(payload)})
	if kind == "report" && r.onReport != nil {
		r.onReport(c, string(payload))
	}
}

func (r *recorder) TooSmall(id site.StationID, takes, need uint32) {
	r.add(event{kind: "too small", text: fmt.Sprint(id, takes, need)})
}

func (r *recorder) Acknowledged(conn stationlink.Conn, id uint16, code byte) {
	c := conn.(*broker.Conn)
	r.add(event{kind: "ack", conn: c, id: id, code: code})
	if r.onAck != nil {
		r.onAck()
	}
}

// all lists the events of that kind.
func (r *recorder) all(kind string) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []event
	for _, e := range r.events {
		if e.kind == kind {
			list = append(list, e)
		}
	}
	return list
}

// awaitEvent waits for the n-th event of that kind and returns it.
func (r *recorder) awaitEvent(t testing.TB, kind string, n int) event {
	t.Helper()
	await.Until(t, kind, func() bool { return len(r.all(kind)) >= n })
	return r.all(kind)[n-1]
}

// live lists the connections that are connected, not replaced by a later one of their
// station, and not disconnected.
func (r *recorder) live() map[*broker.Conn]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := make(map[*broker.Conn]bool)
	for _, e := range r.events {
		switch e.kind {
		case "connected":
			maps.DeleteFunc(live, func(c *broker.Conn, _ bool) bool { return c.Station() == e.conn.Station() })
			live[e.conn] = true
		case "disconnected":
			delete(live, e.conn)
		}
	}
	return live
}

// syncBuffer is a buffer that a logger may write into while a test reads it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// gate is a broker that serves.
type gate struct {
	t       testing.TB
	server  *broker.Server
	handler *recorder
	metrics *metric.Registry
	log     *syncBuffer
	address string
	stop    func() error // ends Serve and returns its error; also at the end of the test
}

// setup is what a test wants otherwise than usual.
type setup struct {
	limits    broker.Limits
	auth      broker.Authenticator
	handler   *recorder
	listeners []broker.Listener
}

// open starts a broker on a free port, or on the given listeners. Its times are far away
// where the setup names none.
func open(t testing.TB, want setup) *gate {
	t.Helper()
	g := &gate{t: t, handler: want.handler, metrics: metric.New(), log: &syncBuffer{}}
	if g.handler == nil {
		g.handler = newRecorder()
	}
	if want.auth == nil {
		want.auth = everyone{}
	}
	if want.listeners == nil {
		want.listeners = []broker.Listener{{Net: listen(t)}}
	}
	g.address = want.listeners[0].Net.Addr().String()
	g.server = broker.New(broker.Config{
		Authenticator: want.auth, Handler: g.handler, Limits: want.limits,
		Logger:  slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: g.metrics,
	}.Filled())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(ctx, want.listeners...) }()
	g.stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("Serve gave %v", err)
		}
	})
	return g
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// counted returns the line of a metric.
func (g *gate) counted(metric string) string {
	var text bytes.Buffer
	g.metrics.Write(&text)
	for line := range strings.Lines(text.String()) {
		if value, ok := strings.CutPrefix(line, metric+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "0"
}

// refusals returns how often something was refused for that reason.
func (g *gate) refusals(reason string) string {
	return g.counted(`gatehouse_refusals_total{reason="` + reason + `"}`)
}

// dial opens a connection to the broker without saying anything.
func (g *gate) dial() *client {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	return newClient(g.t, conn)
}

// connect connects a station in that version of MQTT.
func (g *gate) connect(id site.StationID, version byte) *client {
	g.t.Helper()
	c := g.dial()
	c.connect(id, version)
	return c
}

// connectAndSubscribe connects a station that listens for commands at that QoS, and
// returns the broker's side of it too.
func (g *gate) connectAndSubscribe(id site.StationID, version, qos byte) (*client, *broker.Conn) {
	g.t.Helper()
	c := g.connect(id, version)
	c.subscribe(id, qos)
	return c, g.connOf(id)
}

// connOf returns the broker's side of the live connection of a station.
func (g *gate) connOf(id site.StationID) *broker.Conn {
	g.t.Helper()
	var found *broker.Conn
	await.Until(g.t, "the connection of station "+id.String(), func() bool {
		for c := range g.handler.live() {
			if c.Station() == id {
				found = c
			}
		}
		return found != nil
	})
	return found
}

// wellServed proves that a station of its own is served from CONNECT to command.
func (g *gate) wellServed() {
	g.t.Helper()
	const id = 999_999
	c, conn := g.connectAndSubscribe(id, 4, 1)
	defer c.close()
	c.exchangeCommand(conn, id)
	c.ping()
}

// isEnd reports whether a read error is the end of the connection.
func isEnd(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) || errors.Is(err, io.EOF)
}
