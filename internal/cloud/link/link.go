package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/station"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

const (
	// saveEvery is how often the cursor goes to disk while it moves. What was delivered
	// since then goes up once more after a power cut; a card lasts longer for it.
	saveEvery = 15 * time.Second
	// saveBeyond records are saved within a second. So a kill in a backlog costs few, and an
	// application that acknowledges only progress is soon sent what is new to it.
	saveBeyond = 200
	// storePatience is how long the link waits for the disk before it goes on.
	storePatience = 5 * time.Second
)

// Journal is what goes up; package journal satisfies it.
type Journal interface {
	// Subscribe returns a channel that is sent to after each durable change.
	Subscribe() (wake <-chan struct{}, cancel func())
	// Latest is the newest durable seq.
	Latest() uint64
	// AppendLater writes a record soon and does not wait.
	AppendLater(r site.Record)
}

// Store is what the link keeps; package sqlite satisfies it. Safe for concurrent use.
// Errors are fault.Unavailable when the disk fails.
type Store interface {
	// HashAt returns the hash of a record; "" where there is none.
	HashAt(ctx context.Context, seq uint64) (string, error)
	// CloudCursor returns the last seq that the cloud has taken; 0 before the first.
	CloudCursor(ctx context.Context) (uint64, error)
	// SaveCloudCursor keeps it.
	SaveCloudCursor(ctx context.Context, seq uint64) error
	// CloudStations returns the stations whose retained state the cloud's broker has.
	CloudStations(ctx context.Context) ([]site.StationID, error)
	// SaveCloudStations keeps them.
	SaveCloudStations(ctx context.Context, ids []site.StationID) error
	// Outbox returns the records after a seq as they are stored, in order of seq, at most
	// so many; fewer where they are long.
	Outbox(ctx context.Context, after uint64, limit int) ([]journal.Entry, error)
}

// Stations is what is mirrored; package station satisfies it. Its methods are quick
// and safe for concurrent use.
type Stations interface {
	// Stations lists the enrolled stations by id.
	Stations() []site.Station
	// State returns what is known of a station now; false when it is not enrolled.
	State(id site.StationID) (site.StationState, bool)
	// EventsSince returns what changed after that number; gap reports that some were
	// forgotten.
	EventsSince(after uint64, id site.StationID) (events []station.Event, gap bool)
	// Latest is the number of the newest event.
	Latest() uint64
	// Subscribe returns a channel that is sent to when a station changes in any way.
	Subscribe() (wake <-chan struct{}, cancel func())
}

// Settings are where the cloud is and how to connect to it. The zero Settings are those
// of a gateway without a cloud.
type Settings struct {
	Broker     mqttclient.Broker
	BrokerAcks bool // a record counts as delivered when the broker has it (cloud.ack = "broker")
	Keys       api.Keyring
	PerSecond  int  // records of a backlog; more are sent later
	Window     int  // records that may be on their way, not acknowledged
	Updates    bool // whether signed commands may have the system updated
}

// Enabled reports whether there is a cloud.
func (s Settings) Enabled() bool { return s.Broker.URL != "" }

// Config is what a Link needs.
type Config struct {
	Gateway  site.GatewayID
	Version  string
	Boot     site.BootID
	Store    Store
	Journal  Journal
	Stations Stations
	Unlocker Unlocker
	Updates  Updates
	Clock    site.Clock
	Logger   *slog.Logger
	Health   *health.Registry
	Metrics  *metric.Registry
	Find     func(path string) (string, error) // see [mqttclient.Config]
}

// Link is the link. Its methods are safe for concurrent use.
type Link struct {
	Config
	dial     func(ctx context.Context, cfg mqttclient.Config) (connection, error)
	commands *commands

	cursor atomic.Uint64 // the last seq that the cloud has taken
	kept   atomic.Uint64 // of these, the last that the disk knows of
	sent   atomic.Uint64 // the highest seq that this process has sent, at least cursor

	wake chan struct{} // capacity 1: the session has something to do

	// silent is for how long, while connected, no application has acknowledged what
	// waits. The outboxes of successive sessions share it.
	silent   time.Duration
	flaps    bool // see [mqttclient.Loss]; only Run's goroutine uses it
	identity identity
	alone    atomic.Bool // the broker refused a subscription to the gateway's own status: it is not tried again
	searched atomic.Bool // the broker has no state of a station that is unknown, or refused the search for them: it is not searched again

	mu       sync.Mutex // mu guards what follows
	settings Settings
	results  *results           // the answers that wait for the broker of the settings
	replace  context.CancelFunc // ends what goes by the settings; nil before Run
	status   site.CloudStatus   // without what Status adds
}

// New returns the link, and reads how far the cloud has come. It starts nothing.
func New(ctx context.Context, cfg Config, settings Settings) (*Link, error) {
	l := &Link{Config: cfg, wake: make(chan struct{}, 1), results: new(results)}
	l.dial = func(ctx context.Context, cfg mqttclient.Config) (connection, error) { return mqttclient.Dial(ctx, cfg) }
	cursor, err := cfg.Store.CloudCursor(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading how far the cloud has come: %w", err)
	}
	l.cursor.Store(cursor)
	l.kept.Store(cursor)
	l.sent.Store(cursor)
	l.commands = newCommands(cfg, l.results.put)
	l.Configure(settings)
	cfg.Metrics.Gauge("gatehouse_cloud_connected", func() (up float64) {
		if l.Status().Connected {
			up = 1
		}
		return up
	})
	cfg.Metrics.Gauge("gatehouse_cloud_waiting_records", func() float64 { return float64(l.Status().Waiting) })
	return l, nil
}

// Configure replaces the settings. A connection that was made by others is ended, and
// made again; keys alone change nothing of it. Keys that are no longer trusted open nothing
// from now on. The answer to a command is for the broker that sent it: another one is sent none.
func (l *Link) Configure(settings Settings) {
	l.commands.trust(settings.Keys)
	l.commands.allowUpdates(settings.Updates)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.settings
	l.settings = settings
	if before.Enabled() && before.Broker.URL != settings.Broker.URL {
		l.results = new(results)
	}
	if before.Broker == settings.Broker &&
		before.BrokerAcks == settings.BrokerAcks && before.PerSecond == settings.PerSecond && before.Window == settings.Window {
		return
	}
	l.identity.reset()
	l.alone.Store(false)
	l.searched.Store(false)
	if l.replace != nil {
		l.replace()
	}
}

// Held is the last seq that the cloud has taken, beyond which retention removes
// nothing; the largest there is without a cloud. It is one that the disk knows of: the
// next run would count as lost what is removed beyond.
func (l *Link) Held() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.settings.Enabled() {
		return 1<<63 - 1
	}
	return l.kept.Load()
}

// wakeUp has the session look for what there is to do. It never blocks.
func (l *Link) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run keeps the connection until ctx ends, where there is a cloud.
func (l *Link) Run(ctx context.Context) error {
	var others sync.WaitGroup
	others.Go(func() { l.watch(ctx) })
	others.Go(func() { l.commands.refusals.Run(ctx, l.commands.record) })
	others.Go(func() { l.commands.updates.refusals.Run(ctx, l.commands.recordUpdate) })
	defer others.Wait()
	defer l.commands.running.Wait() // each has a deadline, and the gateway waits for a stage no longer than it may
	for ctx.Err() == nil {
		within, cancel := context.WithCancel(ctx)
		l.mu.Lock()
		settings, results := l.settings, l.results
		l.replace = cancel
		l.mu.Unlock()
		if !settings.Enabled() {
			l.none()
			<-within.Done()
		} else {
			mqttclient.Backoff{}.Retry(within, func(ctx context.Context) error { return l.connect(ctx, settings, results) }, l.down)
			if ctx.Err() == nil && l.Status().Connected {
				l.down(mqttclient.Loss{Err: errReplaced, New: true})
			}
		}
		cancel()
	}
	return nil
}

// connect makes a connection and serves it until it is lost, with the reason, or until
// ctx ends.
func (l *Link) connect(ctx context.Context, settings Settings, results *results) error {
	s := &session{Link: l, settings: settings, results: results}
	if !l.searched.Load() {
		s.unknown = make(chan site.StationID, maxUnknown)
	}
	s.outbox, s.mirror = newOutbox(s), newMirror(s)
	conn, err := l.dial(ctx, s.dialConfig())
	if err != nil {
		failed, ok := errors.AsType[*mqttclient.DialError](err)
		switch {
		case !ok || failed.Step != mqttclient.StepSubscribe:
		case s.unknown != nil:
			l.searched.Store(true)
		default:
			l.alone.Store(true)
		}
		return err
	}
	s.conn = conn
	l.up(settings.Broker.URL)
	return s.serve(ctx)
}

// watch keeps the cursor on disk, now and then and at the end, and judges what changes by
// time alone.
func (l *Link) watch(ctx context.Context) {
	savedAt := time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			l.judge(health.CloudIdentity, l.identity.judge(time.Now()), adviceIdentity)
			l.judgeClock()
		}
		if at := l.cursor.Load(); at != l.kept.Load() && (ctx.Err() != nil || at-l.kept.Load() >= saveBeyond || time.Since(savedAt) >= saveEvery) {
			savedAt = time.Now()
			l.save(context.WithoutCancel(ctx), at)
		}
	}
}

// save keeps the cursor. What fails is tried again.
func (l *Link) save(ctx context.Context, at uint64) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if l.Store.SaveCloudCursor(ctx, at) == nil {
		l.kept.Store(at)
	}
}
