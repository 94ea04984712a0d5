package link

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// leastInbound is how many messages a second the broker may send at least. Checking a
	// signature takes 1.6 ms on the smallest board: a client that may publish takes half of
	// its processor. Six commands a second to each of 50 doors do not wait.
	leastInbound = 300
	// beat is how often what depends on time alone is judged.
	beat = time.Second
	// breath is how long after a wake-up by new records or events the next ones are left:
	// many at once cost the doors less, taken together.
	breath = 10 * time.Millisecond
	// deliveryPatience is how long the broker may acknowledge nothing of what is in flight.
	deliveryPatience = time.Minute
	// When the status is published again: every statusEvery; within statusMoved if the
	// journal's next record, or how updates of the system stand, has changed; at once if an application asks for it, but no more
	// often than once a beat.
	statusEvery = 5 * time.Minute
	statusMoved = 5 * time.Second
	// hashPatience bounds reading a hash for the status.
	hashPatience = 2 * time.Second
)

// connection is what a session uses of a [mqttclient.Conn].
type connection interface {
	// Publish hands a message over; order is kept.
	Publish(m mqttclient.Message) *mqttclient.Delivery
	// Unsubscribe ends a subscription, and does not wait.
	Unsubscribe(topic string)
	// Lost is closed when the connection has ended by itself, and Err returns why.
	Lost() <-chan struct{}
	Err() error
	// Close ends the connection; the broker publishes the will.
	Close()
}

// session is one connection with all that belongs to it. The goroutine of serve does
// everything but to receive.
type session struct {
	*Link
	settings Settings
	results  *results
	conn     connection
	since    site.Timestamp
	flight   []flying  // published at QoS 1 and not acknowledged by the broker, in order
	heard    time.Time // when the broker last acknowledged one
	outbox   *outbox
	mirror   *mirror
	unknown  chan site.StationID // capacity maxUnknown: stations with a state at the broker that are not enrolled; nil: no search

	said     time.Time   // when the status was last published
	saidNext uint64      // the journal's next record in it
	saidText []byte      // how updates stood in it
	asked    atomic.Bool // the status is to be published again

	mu      sync.Mutex // mu guards what follows
	ack     uint64     // the highest that an application has acknowledged
	ackCame bool       // and not looked at
}

// flying is a message in flight, and what to do when the broker has acknowledged it.
type flying struct {
	*mqttclient.Delivery
	sent    time.Time
	arrived func()
	result  *api.Result // that it is; nil for any other message
}

// dialConfig adds to the configured broker what makes the connection the gateway's.
func (s *session) dialConfig() mqttclient.Config {
	cfg := mqttclient.Config{Broker: s.settings.Broker, Now: s.Clock.Now, Find: s.Find, Receive: s.receive, Connected: s.judgePlain}
	cfg.ClientID = cmp.Or(cfg.ClientID, string(s.Gateway))
	cfg.PerSecond = float64(max(leastInbound, 2*s.settings.PerSecond)) // an application may acknowledge each record
	cfg.Burst = 2 * int(cfg.PerSecond)
	cfg.Will = &mqttclient.Message{
		Topic: api.Topic(s.Gateway, api.StatusLeaf), QoS: 1, Retained: true, Payload: api.Encode(api.Status{Status: api.Offline}),
	}
	cfg.Topics = []string{api.Topic(s.Gateway, api.CommandLeaf), api.Topic(s.Gateway, api.AckLeaf)}
	if !s.alone.Load() {
		cfg.Optional = append(cfg.Optional, api.Topic(s.Gateway, api.StatusLeaf))
	}
	if s.unknown != nil {
		cfg.Optional = append(cfg.Optional, api.StateFilter(s.Gateway))
	}
	return cfg
}

// receive takes a message of the broker, one after the other.
func (s *session) receive(m mqttclient.Message) {
	received := time.Now()
	address, _ := api.ParseTopic(m.Topic)
	if address.Gateway != s.Gateway {
		return
	}
	switch address.Leaf {
	case api.AckLeaf:
		var ack api.Ack
		if json.Unmarshal(m.Payload, &ack) != nil || m.Retained { // an earlier acknowledgement does not count
			s.Metrics.Refused("cloud-ack")
			return
		}
		s.mu.Lock()
		s.ack, s.ackCame = max(s.ack, min(ack.Seq, s.sent.Load())), true // what is sent later it cannot mean
		s.mu.Unlock()
		s.wakeUp()
	case api.StatusLeaf:
		var status api.Status
		if json.Unmarshal(m.Payload, &status) != nil || m.Retained || status.Boot == "" || status.Boot == s.Boot {
			return
		}
		if s.identity.saw(status.Boot, received) {
			s.asked.Store(true)
			s.wakeUp()
		}
	case api.StateLeaf:
		if m.Retained && len(m.Payload) > 0 {
			s.find(address.Station)
		}
	case api.CommandLeaf:
		inbox{s.commands, s.answer}.handle(m.Payload, m.Retained, received)
	}
}

// serve serves the connection until it is lost, with the reason, or until ctx ends.
func (s *session) serve(ctx context.Context) error {
	defer func() {
		s.conn.Close()
		s.keepResults()
		s.silent = time.Since(s.outbox.taken)
	}()
	records, leaveJournal := s.Journal.Subscribe()
	defer leaveJournal()
	events, leaveStations := s.Stations.Subscribe()
	defer leaveStations()
	s.since = site.At(s.Clock.Now())
	s.sayOnline()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for newRecords, newEvents := records, events; ; {
		pause := s.step(ctx)
		if newRecords == nil || newEvents == nil {
			pause = min(pause, breath)
		}
		timer.Reset(pause)
		var oldest <-chan struct{} // nil without any in flight
		if len(s.flight) > 0 {
			oldest = s.flight[0].Done()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.conn.Lost():
			return s.conn.Err()
		case <-newRecords:
			newRecords = nil
		case <-newEvents:
			newEvents, s.mirror.changed = nil, true
		case <-s.wake:
		case <-oldest:
			if err := s.flight[0].Err(); err != nil {
				return err
			}
			s.flight[0].arrived()
			s.flight, s.heard = s.flight[1:], time.Now()
		case <-timer.C:
			newRecords, newEvents = records, events
			if len(s.flight) > 0 && min(time.Since(s.flight[0].sent), time.Since(s.heard)) >= deliveryPatience {
				return mqttclient.ErrUnacknowledged
			}
		}
	}
}

// step does all that is due, and returns when to come back at the latest. The status is
// published again from time to time because a cluster of brokers may detect late that the
// connection before has ended, and publish its will after the status of this one.
func (s *session) step(ctx context.Context) time.Duration {
	since := time.Since(s.said)
	s.mu.Lock()
	ack, came := s.ack, s.ackCame
	s.ackCame = false
	s.mu.Unlock()
	if came && !s.outbox.acknowledged(ack) {
		s.asked.Store(true)
	}
	s.sendResults() // first: states, of which there may be many, leave them no place
	pause := min(beat, s.outbox.step(ctx), s.mirror.step(ctx))
	moved := since >= statusMoved && (s.cursor.Load()+1 != s.saidNext || !bytes.Equal(api.Encode(s.updateStatus()), s.saidText))
	if since >= beat && (moved || since >= statusEvery || s.asked.Load()) {
		s.sayOnline()
	}
	return max(pause, time.Millisecond)
}

// send publishes at QoS 1; arrived is called when the broker has acknowledged it.
func (s *session) send(m mqttclient.Message, arrived func()) {
	m.QoS = 1
	s.flight = append(s.flight, flying{Delivery: s.conn.Publish(m), sent: time.Now(), arrived: arrived})
}

// sayOnline publishes that the gateway is online, which record is next, and the hash of
// the one before it, where it can be read.
func (s *session) sayOnline() {
	next := s.cursor.Load() + 1
	update := s.updateStatus()
	s.said, s.saidNext, s.saidText = time.Now(), next, api.Encode(update)
	s.asked.Store(false)
	hash := ""
	if next > 1 {
		ctx, cancel := context.WithTimeout(context.Background(), hashPatience)
		defer cancel()
		hash, _ = s.Store.HashAt(ctx, next-1)
	}
	s.send(mqttclient.Message{Topic: api.Topic(s.Gateway, api.StatusLeaf), Retained: true, Payload: api.Encode(api.Status{
		Status: api.Online, Version: s.Version, Since: &s.since, Boot: s.Boot, Journal: &api.StatusJournal{Next: next, Hash: hash}, Update: update,
	})}, func() {})
}
