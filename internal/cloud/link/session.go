package link

import (
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
	// leastInbound is how many messages a second the broker may send at least.
	leastInbound = 300
	// goodbyePatience is how long the lanes may take to end, and how long the last word.
	goodbyePatience = time.Second
	// When the status is published again, in a session: soon, and then at long
	// intervals; within statusMoved if the journal's next record has changed; within
	// statusAsked if an application asks for it, and no more often.
	statusSoon  = time.Minute
	statusEvery = 15 * time.Minute
	statusMoved = 5 * time.Second
	statusAsked = time.Second
)

// session is one connection with all that belongs to it.
type session struct {
	*Link
	settings Settings
	conn     connection
	since    site.Timestamp
	acks     mailbox
	asked    atomic.Bool // an application has asked for the status
}

func newSession(l *Link, settings Settings) *session {
	return &session{Link: l, settings: settings, acks: mailbox{wake: make(chan struct{}, 1)}}
}

// dialConfig adds to the configured broker what makes the connection the gateway's.
func (s *session) dialConfig() mqttclient.Config {
	cfg := s.settings.Broker
	if cfg.ClientID == "" {
		cfg.ClientID = string(s.Gateway)
	}
	cfg.Now = s.Clock.Now
	cfg.PerSecond = float64(max(leastInbound, 2*s.settings.PerSecond)) // an application may acknowledge each record
	cfg.Burst = 2 * int(cfg.PerSecond)
	cfg.Will = &mqttclient.Message{
		Topic: api.Topic(s.Gateway, api.StatusLeaf), QoS: 1, Retained: true,
		Payload: api.Encode(api.Status{Status: api.Offline}),
	}
	cfg.Topics = []string{api.Topic(s.Gateway, api.CommandLeaf), api.Topic(s.Gateway, api.AckLeaf)}
	if !s.alone.Load() {
		cfg.Optional = []string{api.Topic(s.Gateway, api.StatusLeaf)}
	}
	cfg.Receive = s.receive
	return cfg
}

// receive takes a message of the broker; it is called by many goroutines at once.
func (s *session) receive(m mqttclient.Message) {
	received := time.Now()
	address, _ := api.ParseTopic(m.Topic)
	switch address.Leaf {
	case api.AckLeaf:
		ack, err := api.ParseAck(m.Payload)
		if err != nil || m.Retained { // what was said before this connection counts no more
			s.Metrics.Refused("cloud-ack")
			return
		}
		s.acks.put(min(ack.Seq, s.sent.Load())) // judged by what was sent when it came: what is sent later it cannot mean
	case api.StatusLeaf:
		var status api.Status
		if json.Unmarshal(m.Payload, &status) == nil && !m.Retained && status.Boot != "" && status.Boot != s.Boot {
			s.asked.Store(s.identity.saw(status.Boot, received) || s.asked.Load())
		}
	case api.CommandLeaf:
		s.commands.receive(context.Background(), m.Payload, m.Retained, received)
	}
}

// serve serves the connection until it is lost, with the reason, or until ctx ends.
func (s *session) serve(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s.since = site.At(s.Clock.Now())
	next := s.sayOnline()
	lanes := []func(context.Context) error{
		newOutbox(s).run, newMirror(s).run, s.sendResults,
		func(ctx context.Context) error { return s.repeat(ctx, next) },
	}
	failed := make(chan error, len(lanes))
	var running sync.WaitGroup
	for _, lane := range lanes {
		running.Go(func() {
			if err := lane(inner); err != nil {
				failed <- err
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case <-s.conn.Lost():
		err = s.conn.Err()
	case err = <-failed:
	}
	cancel()
	if ended := after(&running); ctx.Err() != nil && within(goodbyePatience, ended) && s.sayGoodbye() {
		s.conn.Close()
	} else {
		s.conn.Drop() // the broker says with the will that the gateway is gone
	}
	running.Wait()
	return err
}

// sayOnline publishes that the gateway is online and which record is next, and returns
// the latter.
func (s *session) sayOnline() (next uint64) {
	next = s.cursor.Load() + 1
	s.say(api.StatusLeaf, api.Status{
		Status: api.Online, Version: s.Version, Since: &s.since, Boot: s.Boot,
		Journal: &api.StatusJournal{Next: next, Hash: s.acknowledged(next - 1)},
	})
	return next
}

// hashPatience bounds reading a hash for the status.
const hashPatience = 2 * time.Second

// acknowledged returns the hash of the last record that was acknowledged; "" where there
// is none, or it cannot be read now.
func (s *session) acknowledged(seq uint64) string {
	if seq == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), hashPatience)
	defer cancel()
	hash, err := s.Store.HashAt(ctx, seq)
	if err != nil {
		s.Logger.Warn("the cloud's status goes without the hash of the journal", "error", err)
	}
	return hash
}

// repeat publishes the status again: when the next record has changed or an application
// asks for it; and from time to time, because a cluster of brokers may detect late that
// the connection before has ended, and publish its will after the status of this one.
func (s *session) repeat(ctx context.Context, next uint64) error {
	again := time.NewTimer(statusSoon)
	defer again.Stop()
	tick := time.NewTicker(statusAsked)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				moved := s.cursor.Load()+1 != next && time.Since(last) >= statusMoved
				due = s.asked.Swap(false) || moved
			case <-again.C:
				again.Reset(statusEvery)
				due = true
			}
		}
		next = s.sayOnline()
	}
}

// sayGoodbye says what the will would, which a clean end keeps from being sent; false
// when the broker does not have it in time. Then the end of the connection frees who
// still says it.
func (s *session) sayGoodbye() bool {
	said := make(chan struct{})
	var last delivery
	go func() {
		defer close(said)
		last = s.say(api.StatusLeaf, api.Status{Status: api.Offline})
		<-last.Done()
	}()
	return within(goodbyePatience, said) && last.Err() == nil
}

// after gives what is closed when all have ended.
func after(all *sync.WaitGroup) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	return ended
}

// within waits for a signal and reports whether it came in time.
func within(patience time.Duration, signal <-chan struct{}) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-signal:
		return true
	case <-timer.C:
		return false
	}
}

// say sends a payload, retained where it says how the gateway stands.
func (s *session) say(leaf api.Leaf, payload any) delivery {
	return s.conn.Publish(mqttclient.Message{
		Topic: api.Topic(s.Gateway, leaf), QoS: 1, Retained: leaf == api.StatusLeaf, Payload: api.Encode(payload),
	})
}

// mailbox holds the newest acknowledgement until somebody looks.
type mailbox struct {
	highest atomic.Uint64
	wake    chan struct{} // capacity 1
}

// put keeps the higher one: acknowledgements may overtake each other.
func (m *mailbox) put(seq uint64) {
	raise(&m.highest, seq)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// raise sets value to at least seq.
func raise(value *atomic.Uint64, seq uint64) {
	for {
		now := value.Load()
		if now >= seq || value.CompareAndSwap(now, seq) {
			return
		}
	}
}
