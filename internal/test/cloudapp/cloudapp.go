// Package cloudapp is an application in the cloud for tests and campaigns: it subscribes
// to what gateways publish, hands it on, and acknowledges the records of their journals.
package cloudapp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// Kind says what an event is.
type Kind string

// The kinds of events.
const (
	Connected    Kind = "connected"    // to the broker, and subscribed
	Disconnected Kind = "disconnected" // Detail says why
	Status       Kind = "status"       // of a gateway's link
	State        Kind = "state"        // of a station
	Removed      Kind = "removed"      // a station is no longer there
	Record       Kind = "record"       // the next one of the journal
	Live         Kind = "live"         // a record before its turn
	Result       Kind = "result"       // how a command ended
	Gap          Kind = "gap"          // records are gone from the gateway
	Malformed    Kind = "malformed"    // a message that is not of the contract; Detail says why
)

// Event is one thing that happened.
type Event struct {
	Kind     Kind
	Gateway  site.GatewayID
	Station  site.StationID
	Retained bool
	Detail   string
	Payload  json.RawMessage

	// The payload, read; each of one kind alone.
	Record *site.Record
	State  *site.StationState
	Status *api.Status
	Result *api.Result
}

// Config says what to follow.
type Config struct {
	Broker      mqttclient.Config  // the application fills in what it subscribes to
	Gateway     site.GatewayID     // "": every one that the broker shows
	Acknowledge bool               // else records stay undelivered for their gateways
	Handle      func(Event)        // takes each event, one after the other
	Backoff     mqttclient.Backoff // between connections
}

// application is one that runs.
type application struct {
	Config

	mu      sync.Mutex // mu guards readers, and has events handled one after the other
	readers map[site.GatewayID]*Reader
}

// Run follows until ctx ends.
func Run(ctx context.Context, cfg Config) {
	if cfg.Gateway == "" {
		cfg.Gateway = "+"
	}
	a := &application{Config: cfg, readers: make(map[site.GatewayID]*Reader)}
	a.Broker.Topics, a.Broker.Receive = api.Filters(cfg.Gateway), a.receive
	a.Broker.PerSecond, a.Broker.Burst, a.Broker.MaxPayload = 100_000, 100_000, 64<<10
	a.Backoff.Retry(ctx, a.follow, func(l mqttclient.Loss) {
		a.tell(Event{Kind: Disconnected, Detail: l.Err.Error()})
	})
}

func (a *application) tell(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Handle(e)
}

func (a *application) follow(ctx context.Context) error {
	conn, err := mqttclient.Dial(ctx, a.Broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	a.tell(Event{Kind: Connected})
	a.mu.Lock()
	for reader := range maps.Values(a.readers) {
		reader.Reconnected()
	}
	a.mu.Unlock()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			a.acknowledge(conn, time.Now())
			return nil
		case <-conn.Lost():
			return conn.Err()
		case now := <-ticker.C:
			a.acknowledge(conn, now)
		}
	}
}

func (a *application) acknowledge(conn *mqttclient.Conn, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for gateway, reader := range a.readers {
		if ack, due := reader.Acknowledge(now); due && a.Acknowledge {
			conn.Publish(mqttclient.Message{Topic: api.Topic(gateway, api.AckLeaf), QoS: 1, Payload: api.Encode(ack)})
		}
	}
}

func (a *application) receive(m mqttclient.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	address, _ := api.ParseTopic(m.Topic)
	e := Event{Gateway: address.Gateway, Station: address.Station, Retained: m.Retained, Payload: slices.Clone(m.Payload)}
	reader := a.readers[e.Gateway]
	if reader == nil {
		reader = NewReader()
		a.readers[e.Gateway] = reader
	}
	var items []Item
	var err error
	if address.Leaf == api.JournalLeaf {
		items, err = reader.Journal(e.Payload)
	} else {
		err = e.read(address.Leaf)
	}
	switch {
	case err != nil:
		a.Handle(Event{Kind: Malformed, Gateway: e.Gateway, Station: e.Station, Detail: fmt.Sprintf("%s: %v", m.Topic, err)})
		return
	case e.Kind == Status:
		items = reader.Status(*e.Status)
	}
	if e.Kind != "" {
		a.Handle(e)
	}
	for _, item := range items {
		got := Event{Kind: Record, Gateway: e.Gateway, Payload: item.Payload, Record: &item.Record}
		if item.Record.Boot == "" {
			got.Kind = Gap
		}
		a.Handle(got)
	}
}

// read reads the payload of any leaf but the journal.
func (e *Event) read(leaf api.Leaf) error {
	var into any
	switch {
	case leaf == api.StatusLeaf:
		e.Kind, e.Status = Status, new(api.Status)
		into = e.Status
	case leaf == api.ResultLeaf:
		e.Kind, e.Result = Result, new(api.Result)
		into = e.Result
	case leaf == api.LiveLeaf:
		e.Kind, e.Record = Live, new(site.Record)
		into = e.Record
	case len(e.Payload) == 0:
		e.Kind = Removed
		return nil
	default:
		e.Kind, e.State = State, new(site.StationState)
		into = e.State
	}
	return json.Unmarshal(e.Payload, into)
}
