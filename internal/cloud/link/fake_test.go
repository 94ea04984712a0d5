package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

const gatewayID = site.GatewayID("6f1c7a3e-0000-4000-8000-000000000001")

// broker stands for the cloud's broker and all connections to it.
type broker struct {
	mu       sync.Mutex // mu guards what follows
	dials    []time.Time
	refuse   error
	mute     bool // it takes messages and acknowledges none
	received []message
	ended    []string // subscriptions
	now      *conn
	hear     func(message) // called without mu
	dialling func(mqttclient.Config) error
}

// message is one that came in, and when.
type message struct {
	mqttclient.Message
	at time.Time
}

// conn is one connection.
type conn struct {
	broker *broker
	cfg    mqttclient.Config
	lost   chan struct{}
	mu     sync.Mutex // mu guards what follows
	err    error
	open   []*mqttclient.Delivery // not acknowledged
}

func (b *broker) dial(_ context.Context, cfg mqttclient.Config) (link.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials = append(b.dials, time.Now())
	if b.refuse != nil {
		return nil, b.refuse
	}
	if b.dialling != nil {
		if err := b.dialling(cfg); err != nil {
			return nil, err
		}
	}
	cfg.Connected(strings.HasPrefix(cfg.URL, "tls:"))
	b.now = &conn{broker: b, cfg: cfg, lost: make(chan struct{})}
	return b.now, nil
}

func (c *conn) Publish(m mqttclient.Message) *mqttclient.Delivery {
	s := mqttclient.NewDelivery()
	m.Payload = bytes.Clone(m.Payload)
	b, heard := c.broker, message{m, time.Now()}
	c.mu.Lock() // nothing is received after the end
	if c.err != nil {
		s.Finish(c.err)
		c.mu.Unlock()
		return s
	}
	b.mu.Lock()
	b.received = append(b.received, heard)
	mute, hear := b.mute, b.hear
	b.mu.Unlock()
	if mute {
		c.open = append(c.open, s)
	}
	c.mu.Unlock()
	if mute {
		return s
	}
	s.Finish(nil)
	if hear != nil {
		hear(heard)
	}
	return s
}

func (c *conn) Unsubscribe(topic string) {
	c.broker.set(func() { c.broker.ended = append(c.broker.ended, topic) })
}

func (c *conn) Lost() <-chan struct{} { return c.lost }

func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection; the broker publishes the will.
func (c *conn) Close() {
	c.end(errors.New("closed"))
	c.broker.set(func() {
		c.broker.received = append(c.broker.received, message{*c.cfg.Will, time.Now()})
	})
}

func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, s := range c.open {
		s.Finish(err)
	}
	close(c.lost)
}

// cut breaks the present connection.
func (b *broker) cut() { b.end(errors.New("cut")) }

// end ends it with a reason.
func (b *broker) end(err error) {
	b.mu.Lock()
	now := b.now
	b.mu.Unlock()
	now.end(err)
}

// confirmOldest acknowledges the oldest message that waits for it.
func (b *broker) confirmOldest() {
	b.mu.Lock()
	now := b.now
	b.mu.Unlock()
	now.mu.Lock()
	defer now.mu.Unlock()
	if now.err == nil && len(now.open) > 0 {
		now.open[0].Finish(nil)
		now.open = now.open[1:]
	}
}

// tell sends a message down.
func (b *broker) tell(leaf api.Leaf, payload string, retained bool) {
	b.mu.Lock()
	receive := b.now.cfg.Receive
	b.mu.Unlock()
	receive(mqttclient.Message{Topic: api.Topic(gatewayID, leaf), Payload: []byte(payload), Retained: retained})
}

func (b *broker) ack(seq uint64) { b.tell(api.AckLeaf, fmt.Sprintf(`{"seq":%d}`, seq), false) }

func (b *broker) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// on returns what came in on the topics of that leaf.
func (b *broker) on(leaf api.Leaf) (found []message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.received {
		if a, ok := api.ParseTopic(m.Topic); ok && a.Leaf == leaf && a.Gateway == gatewayID {
			found = append(found, m)
		}
	}
	return found
}

// seqs returns the numbers that came in on that leaf, a gap as the range it stands for.
func (b *broker) seqs(leaf api.Leaf) string {
	var all []string
	for _, m := range b.on(leaf) {
		var r struct {
			Seq, From, To uint64
			Kind          site.Kind
		}
		_ = json.Unmarshal(m.Payload, &r)
		if r.Kind == site.KindGap && r.From > 0 {
			all = append(all, fmt.Sprintf("%d-%d", r.From, r.To))
		} else {
			all = append(all, fmt.Sprint(r.Seq))
		}
	}
	return strings.Join(all, " ")
}

// attempts returns when each attempt at a connection was made.
func (b *broker) attempts() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.dials)
}

// present is the configuration of the newest connection.
func (b *broker) present() mqttclient.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.cfg
}

// span writes the numbers from one to another.
func span(from, to int) string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return strings.Join(all, " ")
}

// house stands for the gateway: its journal, its store, its stations.
type house struct {
	link.Store // the commands' part, which these tests do not use

	mu       sync.Mutex // mu guards what follows
	bodies   map[uint64]string
	latest   uint64
	cursor   uint64
	saves    int
	there    []site.StationID
	stations map[site.StationID]site.StationState
	events   []station.Event
	records  []site.Record
	broken   bool // the disk
	waking   []chan struct{}
	updates  site.UpdateStatus
	opening  chan struct{} // of each unlock; nil: there are no locks
}

func (h *house) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	for _, wake := range h.waking {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// add writes n records.
func (h *house) add(n int) {
	h.set(func() {
		for range n {
			h.latest++
			h.bodies[h.latest] = fmt.Sprintf(`{"seq":%d}`, h.latest)
		}
	})
}

func (h *house) Subscribe() (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waking = append(h.waking, wake)
	return wake, func() {}
}

func (h *house) AppendLater(r site.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

func (h *house) kinds(kind site.Kind) (found []site.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		if r.Kind == kind {
			found = append(found, r)
		}
	}
	return found
}

func (h *house) disk() error {
	if h.broken {
		return fault.New(fault.Unavailable, "full")
	}
	return nil
}

func (h *house) HashAt(_ context.Context, seq uint64) (string, error) {
	return fmt.Sprintf("hash-%d", seq), nil
}

func (h *house) CloudCursor(context.Context) (uint64, error) { return h.cursor, nil }

func (h *house) SaveCloudCursor(_ context.Context, seq uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saves++
	if err := h.disk(); err != nil {
		return err
	}
	h.cursor = seq
	return nil
}

func (h *house) saved() (cursor uint64, saves int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cursor, h.saves
}

func (h *house) CloudStations(context.Context) ([]site.StationID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.disk(); err != nil {
		return nil, err
	}
	return slices.Clone(h.there), nil
}

// listed returns what is kept of the stations.
func (h *house) listed() []site.StationID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.there)
}

func (h *house) SaveCloudStations(_ context.Context, ids []site.StationID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.disk(); err != nil {
		return err
	}
	h.there = slices.Clone(ids)
	return nil
}

func (h *house) Outbox(_ context.Context, after uint64, limit int) (page []journal.Entry, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for seq := after + 1; seq <= h.latest && len(page) < limit; seq++ {
		if body, ok := h.bodies[seq]; ok {
			page = append(page, journal.Entry{Seq: seq, Body: []byte(body)})
		}
	}
	return page, h.disk()
}

// records is the journal's face of a house, and doors the stations'.
type (
	records struct{ *house }
	doors   struct{ *house }
)

func (r records) Latest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

func (d doors) Latest() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return uint64(len(d.events))
}

func (d doors) Stations() (all []site.Station) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.house.stations {
		all = append(all, site.Station{ID: id, Locks: 1})
	}
	return all
}

func (d doors) State(id site.StationID) (site.StationState, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state, ok := d.house.stations[id]
	return state, ok
}

func (d doors) EventsSince(after uint64, _ site.StationID) ([]station.Event, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events[after:]), false
}

// change has a station be in another state.
func (h *house) change(id site.StationID, volts float64) {
	h.set(func() {
		h.stations[id] = site.StationState{ID: id, BatteryVoltage: &volts, Status: site.Online}
		h.events = append(h.events, station.Event{Number: uint64(len(h.events) + 1), State: h.stations[id]})
	})
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }
func (clock) Trusted() bool  { return true }

// parts is a link with what it stands between.
type parts struct {
	*link.Link
	*broker
	house  *house
	health *health.Registry
	log    *logText
	stop   func()
}

// logText is a log that may be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer // mu guards text
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// url is where the fake broker is.
const url = "tls://mqtt.example.test:8883"

// run runs a link in the bubble of the test that calls it, until its end.
func run(t *testing.T, h *house, settings link.Settings, before ...func(*parts)) *parts {
	t.Helper()
	settings.Broker.URL = url
	settings.PerSecond, settings.Window = max(settings.PerSecond, 1), max(settings.Window, 1)
	return start(t, h, settings, before...)
}

func start(t *testing.T, h *house, settings link.Settings, before ...func(*parts)) *parts {
	t.Helper()
	p := &parts{broker: &broker{}, house: h, health: &health.Registry{}, log: &logText{}}
	made, err := link.New(t.Context(), link.Config{
		Gateway: gatewayID, Version: "1.2.3", Boot: "boot-1", Store: h, Journal: records{h}, Stations: doors{h}, Unlocker: locks{h: h}, Updates: h,
		Clock: clock{}, Logger: slog.New(slog.NewTextHandler(p.log, nil)), Health: p.health, Metrics: metric.New(),
	}, settings)
	if err != nil {
		t.Fatal(err)
	}
	made.DialBy(p.dial)
	p.Link = made
	for _, prepare := range before {
		prepare(p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// locks open when the house lets them.
type locks struct{ h *house }

func (l locks) Unlock(context.Context, unlock.Request) (unlock.Answer, error) {
	if l.h.opening == nil {
		return unlock.Answer{}, fault.New(fault.NotFound, "no")
	}
	<-l.h.opening
	return unlock.Answer{Command: "command", Outcome: site.Done}, nil
}

func (locks) Claim(string, time.Time) (unlock.Answer, error) { return unlock.Answer{}, nil }
func (locks) Interrupted() []string                          { return nil }
func (locks) Once(string, func() (unlock.Answer, bool, error)) (unlock.Answer, error) {
	return unlock.Answer{}, fault.New(fault.Conflict, "no")
}

// Status, Sentence and Request are those of updates.
func (h *house) Status() site.UpdateStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.updates
}

func (h *house) Sentence() string { return "Version " + h.Status().Running.Version + " runs." }
func (h *house) Request(site.Actor, updates.Order) (site.CommandID, error) {
	return "", fault.New(fault.Unavailable, "no")
}

func newHouse() *house {
	return &house{bodies: make(map[uint64]string), stations: make(map[site.StationID]site.StationState)}
}
