package cloudtest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/cloudtail"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// patience bounds every wait of these tests; it is no measure of speed.
const patience = time.Minute

// application is one in the cloud, with what it was given.
type application struct {
	t *testing.T

	mu      sync.Mutex // guards the fields below
	events  []cloudtail.Event
	changed chan struct{} // closed and replaced at every change
	stopped func()
}

// newApplication runs an application until the test ends, or stop. It has subscribed to
// everything: NATS loses what is published between a subscription's retained message
// and its acknowledgement.
func newApplication(t *testing.T, cfg cloudtail.Config) *application {
	t.Helper()
	a := &application{t: t, changed: make(chan struct{})}
	if cfg.Gateway == "" {
		cfg.Gateway = cloudtail.All
	}
	cfg.Handle = a.handle
	cfg.Backoff = mqttclient.Backoff{Least: 50 * time.Millisecond, Most: 200 * time.Millisecond}
	if cfg.Broker.ClientID == "" {
		cfg.Broker.ClientID = "application-" + randomID()
	}
	cfg.Broker.KeepAlive = 30 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cloudtail.Run(ctx, cfg) }()
	a.stopped = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the application ended: %v", err)
		}
	})
	t.Cleanup(a.stopped)
	a.next(0, "the application has connected", func(e cloudtail.Event) bool { return e.Kind == cloudtail.Connected })
	return a
}

func (a *application) handle(e cloudtail.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	close(a.changed)
	a.changed = make(chan struct{})
	return nil
}

// look returns the events so far, and what is closed at the next.
func (a *application) look() ([]cloudtail.Event, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clip(a.events), a.changed
}

// await waits until the events satisfy a condition.
func (a *application) await(what string, ok func([]cloudtail.Event) bool) {
	a.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		events, changed := a.look()
		if ok(events) {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			a.t.Fatalf("waited in vain until %s; of %d events the last are\n%s", what, len(events), tell(events))
		}
	}
}

// tell writes the last of the events.
func tell(events []cloudtail.Event) (text string) {
	for _, e := range events[max(0, len(events)-20):] {
		text += fmt.Sprintf("%s %s %s %d-%d %s %s\n", e.Time, e.Kind, e.Station, e.From, e.To, e.Detail, e.Payload)
	}
	return text
}

// next waits for an event after those that were there before.
func (a *application) next(after int, what string, match func(cloudtail.Event) bool) (found cloudtail.Event) {
	a.t.Helper()
	a.await(what, func(events []cloudtail.Event) bool {
		for _, e := range events[min(after, len(events)):] {
			if match(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// count is how many events there are.
func (a *application) count() int {
	events, _ := a.look()
	return len(events)
}

// of returns the events of a kind.
func of(events []cloudtail.Event, kind cloudtail.Kind) (found []cloudtail.Event) {
	for _, e := range events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// sender sends commands.
type sender struct {
	t    *testing.T
	conn *mqttclient.Conn
}

func newSender(t *testing.T, broker mqttclient.Config) sender {
	t.Helper()
	broker.ClientID, broker.KeepAlive = "sender-"+randomID(), 30*time.Second
	conn, err := mqttclient.Dial(t.Context(), broker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return sender{t, conn}
}

// publish publishes, and waits until the broker has it.
func (s sender) publish(topic string, payload []byte, retained bool) {
	s.t.Helper()
	d := s.conn.Publish(mqttclient.Message{Topic: topic, Payload: payload, QoS: 1, Retained: retained})
	<-d.Done()
	if err := d.Err(); err != nil {
		s.t.Errorf("publishing to %s: %v", topic, err)
	}
}

func (s sender) command(gateway site.GatewayID, token string) {
	s.t.Helper()
	s.publish(api.Topic(gateway, api.CommandLeaf), []byte(token), false)
}
