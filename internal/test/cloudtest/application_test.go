package cloudtest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/cloudapp"
)

// keepalive is that of clients that are not under test. No machine stalls for so long.
const keepalive = 10 * time.Minute

// application is one in the cloud, with what it was given.
type application struct {
	t *testing.T

	mu      sync.Mutex // mu guards events
	events  []cloudapp.Event
	stopped func()
}

// newApplication runs an application until the test ends, or stop. It has subscribed to
// everything: NATS loses what is published between a subscription's retained message
// and its acknowledgement.
func newApplication(t *testing.T, cfg cloudapp.Config) *application {
	t.Helper()
	a := &application{t: t}
	cfg.Handle = a.handle
	cfg.Backoff = mqttclient.Backoff{Least: 50 * time.Millisecond, Most: 200 * time.Millisecond}
	if cfg.Broker.ClientID == "" {
		cfg.Broker.ClientID = "application-" + randomID()
	}
	cfg.Broker.Keepalive = keepalive
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { cloudapp.Run(ctx, cfg) })
	a.stopped = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(func() {
		a.stopped()
		if t.Failed() {
			t.Logf("of %d events the last are\n%s", a.count(), tell(a.seen()))
		}
	})
	a.next(0, "the application has connected", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Connected })
	return a
}

func (a *application) handle(e cloudapp.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
}

// seen returns the events so far.
func (a *application) seen() []cloudapp.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clip(a.events)
}

// await waits until the events satisfy a condition.
func (a *application) await(what string, ok func([]cloudapp.Event) bool) {
	a.t.Helper()
	await.Until(a.t, what, func() bool { return ok(a.seen()) })
}

// tell writes the last of the events.
func tell(events []cloudapp.Event) (text string) {
	for _, e := range events[max(0, len(events)-20):] {
		text += fmt.Sprintf("%s %s %s %s\n", e.Kind, e.Station, e.Detail, e.Payload)
	}
	return text
}

// next waits for an event after those that were there before.
func (a *application) next(after int, what string, match func(cloudapp.Event) bool) (found cloudapp.Event) {
	a.t.Helper()
	a.await(what, func(events []cloudapp.Event) bool {
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
func (a *application) count() int { return len(a.seen()) }

// of returns the events of a kind.
func of(events []cloudapp.Event, kind cloudapp.Kind) (found []cloudapp.Event) {
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
	broker.ClientID, broker.Keepalive = "sender-"+randomID(), keepalive
	conn, err := mqttclient.Dial(await.Context(t), broker)
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
	await.Receive(s.t, "an acknowledgement of "+topic, d.Done())
	if err := d.Err(); err != nil {
		s.t.Errorf("publishing to %s: %v", topic, err)
	}
}

func (s sender) command(gateway site.GatewayID, token string) {
	s.t.Helper()
	s.publish(api.Topic(gateway, api.CommandLeaf), []byte(token), false)
}
