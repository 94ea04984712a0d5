package homeassistant

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

const (
	keepAlive = 15 * time.Second
	// leastWait and mostWait bound the wait before the next connection: the broker is in
	// the same house, and its clients are few.
	leastWait = 500 * time.Millisecond
	mostWait  = 5 * time.Second
)

// Journal is what happened; package journal satisfies it.
type Journal interface {
	// Subscribe returns a channel that is sent to after each durable change.
	Subscribe() (wake <-chan struct{}, cancel func())
	// Latest is the newest durable seq.
	Latest() uint64
	// AppendLater writes a record soon and does not wait.
	AppendLater(r site.Record)
}

// Store reads the journal; package sqlite satisfies it.
type Store interface {
	// Outbox returns the records after a seq, in order, at most so many.
	Outbox(ctx context.Context, after uint64, limit int) ([]journal.Entry, error)
}

// Stations is what is shown; package station satisfies it. Its methods are quick and
// safe for concurrent use.
type Stations interface {
	// Stations lists the enrolled stations by id; Station returns one of them.
	Stations() []site.Station
	Station(id site.StationID) (site.Station, bool)
	// Firmware returns the firmware that a station last reported, or "".
	Firmware(id site.StationID) string
	// State returns what is known of a station now; false when it is not enrolled.
	State(id site.StationID) (site.StationState, bool)
	// Subscribe returns a channel that is sent to when a station changes in any way.
	Subscribe() (wake <-chan struct{}, cancel func())
}

// Unlocker opens doors; package unlock satisfies it. Safe for concurrent use.
type Unlocker interface {
	Unlock(ctx context.Context, req unlock.Request) (unlock.Answer, error)
}

// Clock is the gateway's clock; package machine satisfies it. Safe for concurrent use.
type Clock interface {
	Now() time.Time
	// Holdover reports whether the time is right to a few seconds, also for some days
	// without a time service.
	Holdover() bool
}

// Config is what a Link needs: all of it, but for BatteryLow, PlainUnlock and Pages.
type Config struct {
	Broker     mqttclient.Broker
	Find       func(path string) (string, error) // see [mqttclient.Config]
	Prefix     string                            // of Home Assistant's topics
	Gateway    site.GatewayID
	Version    string
	BatteryLow float64 // volts; below it a battery is low; 0: never
	// PlainUnlock has commands taken from a broker that nothing authenticates, so from any
	// machine that answers at its address.
	PlainUnlock bool
	Pages       func() string // where the console is found, or ""; nil: nowhere
	Store       Store
	Journal     Journal
	Stations    Stations
	Unlocker    Unlocker
	Clock       Clock
	Logger      *slog.Logger
	Health      *health.Registry
	Metrics     *metric.Registry
}

// Link is the link to the house's broker.
type Link struct {
	Config
	base    string        // of the gateway's own topics
	slots   chan struct{} // capacity maxUnderWay; each command that is carried out holds one
	running sync.WaitGroup

	refusals *limit.Digest[string]

	flaps bool // see [mqttclient.Loss]; only Run's goroutine uses it
}

// New returns the link. It starts nothing.
func New(cfg Config) *Link {
	return &Link{
		Config: cfg, base: "gatehouse/" + string(cfg.Gateway), slots: make(chan struct{}, maxUnderWay),
		refusals: limit.NewDigest[string](maxReasons),
	}
}

// Run keeps the connection until ctx ends, and returns nil.
func (l *Link) Run(ctx context.Context) error {
	var others sync.WaitGroup
	others.Go(func() { l.refusals.Run(ctx, l.record) })
	defer others.Wait()
	defer l.running.Wait() // each has a deadline
	mqttclient.Backoff{Least: leastWait, Most: mostWait}.Retry(ctx, l.connect, l.down)
	return nil
}

// connect makes a connection and serves it until it is lost, with the reason, or until
// ctx ends.
func (l *Link) connect(ctx context.Context) error {
	s := newSession(l)
	cfg := mqttclient.Config{Broker: l.Broker, Find: l.Find, Now: l.Clock.Now, Receive: s.receive, Connected: s.connected}
	cfg.ClientID, cfg.Keepalive = "gatehouse-ha-"+string(l.Gateway), keepAlive
	cfg.Will = &mqttclient.Message{Topic: l.statusTopic(), Payload: []byte(site.Offline), QoS: 1, Retained: true}
	cfg.Topics = []string{l.base + "/+/+/" + commandLeaf, l.base + "/+/" + stateLeaf, l.Prefix + "/status"}
	conn, err := mqttclient.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	l.up()
	defer context.AfterFunc(ctx, conn.Close)()
	defer conn.Close()
	s.conn = conn
	return s.serve(ctx)
}

func (l *Link) up() {
	l.Health.Clear(health.HomeAssistantDown)
	if !l.flaps {
		l.Logger.Info("home assistant's broker connected", "broker", l.Broker.URL)
	}
}

// down notes that the link is down, and when the next attempt is made.
func (l *Link) down(loss mqttclient.Loss) {
	l.flaps = loss.Flaps
	advice := cmp.Or(loss.Advice, "Doors are not affected. Check that the broker runs, and [homeassistant] in the configuration")
	l.Health.Report(health.Notice, health.HomeAssistantDown, "Home Assistant's broker is out of reach, doors go on working: "+loss.Err.Error(), advice)
	if loss.New {
		l.Logger.Warn("home assistant's broker out of reach", "error", loss.Err, "next", loss.Wait.Round(time.Second).String(), "advice", advice)
	}
}
