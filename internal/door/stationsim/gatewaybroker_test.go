package stationsim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func secretOf(id site.StationID) site.Secret { return site.Secret(fmt.Sprintf("SECRET-OF-%016d", id)) }

// realBroker is the gateway's own broker with a handler that keeps the live
// connections and what came over them.
type realBroker struct {
	address string

	mu      sync.Mutex // guards the fields below
	live    map[site.StationID]stationlink.Conn
	results map[site.CommandID]string
	acks    map[site.StationID]uint16
	reports map[site.StationID]int
}

func startBroker(tb testing.TB) *realBroker {
	tb.Helper()
	b := &realBroker{
		live: make(map[site.StationID]stationlink.Conn), results: make(map[site.CommandID]string),
		acks: make(map[site.StationID]uint16), reports: make(map[site.StationID]int),
	}
	server := broker.New(broker.Config{
		Authenticator: b, Handler: b, Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(),
		Limits: broker.Limits{
			Connections: 4096, ConnectionsPerAddress: 4096, ConnectTimeout: time.Hour,
			PacketsPerSecond: 50, WriteTimeout: time.Hour, PacketSize: 8 << 10,
		},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, broker.Listener{Net: listener}) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return b
}

func (b *realBroker) Authenticate(id site.StationID, secret site.Secret) (uint64, bool) {
	return 1, secret == secretOf(id)
}

// note changes what is kept.
func (b *realBroker) note(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *realBroker) Connected(c stationlink.Conn) error {
	b.note(func() { b.live[c.Station()] = c })
	return nil
}

func (b *realBroker) Disconnected(c stationlink.Conn, _ string) {
	b.note(func() {
		if b.live[c.Station()] == c {
			delete(b.live, c.Station())
		}
	})
}

func (b *realBroker) Heard(stationlink.Conn) {}

func (b *realBroker) Received(c stationlink.Conn, topic string, payload []byte, again bool) {
	if strings.HasSuffix(topic, "/report") {
		b.report(c, payload)
	} else {
		b.result(payload)
	}
}

func (b *realBroker) report(c stationlink.Conn, payload []byte) {
	b.note(func() {
		if json.Valid(payload) {
			b.reports[c.Station()]++
		}
	})
}

func (b *realBroker) result(payload []byte) {
	var r struct {
		ID     site.CommandID `json:"id"`
		Result string         `json:"result"`
	}
	if json.Unmarshal(payload, &r) == nil {
		b.note(func() { b.results[r.ID] = r.Result })
	}
}

func (b *realBroker) TooSmall(site.StationID, uint32, uint32) {}

func (b *realBroker) Acknowledged(c stationlink.Conn, packetID uint16, _ byte) {
	b.note(func() { b.acks[c.Station()] = packetID })
}

// wait returns when the condition, which is called under the lock, is true.
func (b *realBroker) wait(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	await.Until(tb, what, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return condition()
	})
}

// order is a command to unlock, with that id, which never expires.
type order string

func (o order) Payload(b []byte) ([]byte, time.Duration, error) {
	return fmt.Appendf(b, `{"id":%q,"command":"unlock","lockId":"lock-1","ttl":60,"notAfter":1e12}`, string(o)), time.Minute, nil
}

// send hands a command to a live station.
func (b *realBroker) send(tb testing.TB, id site.StationID, command string) {
	tb.Helper()
	b.mu.Lock()
	conn := b.live[id]
	b.mu.Unlock()
	if err := conn.Send(1, 1, order(command), await.Deadline()); err != nil {
		tb.Errorf("sending to station %d: %v", id, err)
	}
}

// members returns n stations with their secrets.
func members(n int) []stationsim.Member {
	out := make([]stationsim.Member, n)
	for i := range out {
		id := site.StationID(i + 1)
		out[i] = stationsim.Member{ID: id, Locks: 2, Secret: secretOf(id)}
	}
	return out
}

// running plays a fleet until the end of the test.
func running(tb testing.TB, cfg stationsim.FleetConfig) *stationsim.Fleet {
	tb.Helper()
	fleet, err := stationsim.NewFleet(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return fleet
}

// allSubscribed reports whether n stations are there with their subscription.
func (b *realBroker) allSubscribed(n int) bool {
	subscribed := 0
	for id, conn := range b.live {
		if _, ok := conn.Subscribed(); ok && b.reports[id] > 0 {
			subscribed++
		}
	}
	return subscribed == n
}

func TestFleet_Run_gatewaysBroker(t *testing.T) {
	const n = 200
	t.Cleanup(func() { await.NoGoroutines(t) })
	b := startBroker(t)
	cfg := stationsim.FleetConfig{Members: members(n)}
	cfg.Each.Broker.Address = b.address
	cfg.Each.Actuation = time.Millisecond
	fleet := running(t, cfg)
	b.wait(t, "all stations are there", func() bool { return b.allSubscribed(n) })
	for id := range site.StationID(n) {
		b.send(t, id+1, fmt.Sprintf("c-%d", id+1))
	}
	b.wait(t, "every command is acknowledged and done", func() bool {
		for id := range site.StationID(n) {
			if b.acks[id+1] != 1 || b.results[site.CommandID(fmt.Sprintf("c-%d", id+1))] != "done" {
				return false
			}
		}
		return true
	})
	for i, station := range fleet.Stations {
		if n := station.Status().Opened; n != 1 {
			t.Errorf("station %d opened %d times", i+1, n)
		}
	}
}

func TestStation_Run_resetByTheBroker(t *testing.T) {
	t.Cleanup(func() { await.NoGoroutines(t) })
	b := startBroker(t)
	cfg := stationsim.FleetConfig{Members: members(1)}
	cfg.Each.Broker.Address = b.address
	cfg.Each.Backoff = stationsim.Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}
	running(t, cfg)
	for range 20 {
		b.wait(t, "the station is there", func() bool { return b.allSubscribed(1) })
		b.mu.Lock()
		conn := b.live[1]
		b.mu.Unlock()
		conn.Reset("a test")
		b.wait(t, "the connection has ended", func() bool { return b.live[1] != conn })
	}
}

func TestStation_Run_wrongSecret(t *testing.T) {
	t.Cleanup(func() { await.NoGoroutines(t) })
	b := startBroker(t)
	refused := make(chan stationsim.Event, 1)
	cfg := stationsim.FleetConfig{Members: []stationsim.Member{{ID: 1, Secret: "WRONG"}}}
	cfg.Each.Broker.Address = b.address
	cfg.Each.OnEvent = func(e stationsim.Event) {
		select {
		case refused <- e:
		default:
		}
	}
	running(t, cfg)
	if e := <-refused; e.Kind != stationsim.Refused {
		t.Errorf("event %+v", e)
	}
}

// BenchmarkFleet_connect is how long 1,000 stations take to connect and report.
func BenchmarkFleet_connect(b *testing.B) {
	const n = 1000
	for b.Loop() {
		server := startBroker(b)
		cfg := stationsim.FleetConfig{Members: members(n)}
		cfg.Each.Broker.Address = server.address
		running(b, cfg)
		server.wait(b, "all stations are there", func() bool { return server.allSubscribed(n) })
	}
}
