package cloudtest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/cloudapp"
	"gatehouse/internal/test/gatewaytest"
)

// The tests mostly wait, so that more of them run at a time than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	code := await.Run(m)
	gatewaytest.RemoveBinary()
	os.Exit(code)
}

// eachBroker runs a test with each of the brokers, at the same time.
func eachBroker(t *testing.T, test func(t *testing.T, b *brokertest.Broker)) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...brokertest.Option) *brokertest.Broker{
		"Mosquitto": brokertest.Mosquitto,
		"NATS":      brokertest.NATS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// door is a whole gateway with stations, whose way to its broker goes through a proxy.
type door struct {
	*gatewaytest.Gateway
	id       site.GatewayID
	proxy    *brokertest.Proxy
	signer   *signer
	stations []*stationsim.Station
}

// unlockTTL is the deadline of an unlock that is not about it.
const unlockTTL = time.Hour

// newDoor runs a gateway with that many stations of two locks.
func newDoor(t *testing.T, b *brokertest.Broker, stations int, change func(*config.Cloud)) *door {
	t.Helper()
	d := &door{proxy: brokertest.NewProxy(t, b.Address()), signer: newSigner(t)}
	cfg := gatewaytest.Configure(t)
	cfg.Unlock.TTL = unlockTTL
	cfg.Cloud.URL, cfg.Cloud.Keys = strings.Replace(b.URL(), b.Address(), d.proxy.Address(), 1), []string{d.signer.public}
	if change != nil {
		change(&cfg.Cloud)
	}
	d.Gateway = gatewaytest.Run(t, cfg)
	d.acceptClock()
	status, err := d.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.id = status.GatewayID
	d.signer.gateway = d.id
	d.play(t, stations)
	return d
}

// acceptClock has the gateway carry out commands on a machine without a time service.
func (d *door) acceptClock() {
	d.T.Helper()
	if _, err := d.Admin.AcceptClock(d.T.Context()); err != nil {
		d.T.Fatal(err)
	}
}

// play enrols and runs simulated stations until the test ends.
func (d *door) play(t *testing.T, stations int) {
	t.Helper()
	d.AddAccount()
	fleet := stationsim.FleetConfig{Each: stationsim.Config{Broker: stationsim.Broker{Address: d.MQTT}, Relock: time.Hour, Actuation: time.Millisecond}}
	for n := range stations {
		issued := d.Enrol(site.StationID(n + 1))
		fleet.Members = append(fleet.Members, stationsim.Member{ID: issued.StationID, Locks: 2, Secret: site.Secret(issued.MQTT.Password)})
	}
	running, err := stationsim.NewFleet(fleet)
	if err != nil {
		t.Fatal(err)
	}
	d.stations = running.Stations
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for n := range stations {
		d.AwaitOnline(site.StationID(n+1), true)
		d.Await("it has subscribed to its commands, a moment later", func() bool { return d.stations[n].Status().Connected })
	}
}

// opened is how often the locks of a station have opened, once they have as often as
// that.
func (d *door) opened(station, least int) int {
	d.T.Helper()
	s := d.stations[station-1]
	d.Await("the locks have opened so often", func() bool { return s.Status().Opened >= least }) // the result comes just before
	return s.Status().Opened
}

// cloud returns the status of the link; a gateway in these tests has one.
func (d *door) cloud() (connected bool, delivered, waiting uint64) {
	d.T.Helper()
	status, err := d.Admin.Status(d.T.Context())
	if err != nil || status.Cloud == nil {
		d.T.Fatalf("%v, cloud %+v", err, status.Cloud)
	}
	return status.Cloud.Connected, status.Cloud.Delivered, status.Cloud.Waiting
}

func (d *door) awaitDelivered() {
	d.T.Helper()
	d.Await("every record is delivered", func() bool {
		connected, _, waiting := d.cloud()
		return connected && waiting == 0
	})
}

func isStatus(word string, retained bool) func(cloudapp.Event) bool {
	return func(e cloudapp.Event) bool {
		return e.Kind == cloudapp.Status && e.Status.Status == word && e.Retained == retained
	}
}

// The status: online while it is, offline by the will when the connection is cut, and
// by the gateway's own word when it ends.
func TestCloud_status(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		began := time.Now().Truncate(time.Millisecond)
		d := newDoor(t, b, 0, nil)
		early := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}})
		early.next(0, "the gateway is online", func(e cloudapp.Event) bool { return isStatus("online", false)(e) || isStatus("online", true)(e) })
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}})
		e := a.next(0, "the retained status has come", isStatus("online", true))
		if e.Status.Version != "test" || e.Status.Since == nil || e.Status.Since.Before(began) || e.Status.Since.After(time.Now()) || e.Gateway != d.id {
			t.Errorf("%+v of %s", e.Status, e.Gateway)
		}
		before := a.count()
		d.proxy.Cut()
		a.next(before, "the will has come", isStatus("offline", false))
		a.next(before, "the gateway is back", isStatus("online", false))
		before = a.count()
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
		a.next(before, "the gateway has said goodbye", isStatus("offline", false))
		late := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}})
		late.next(0, "who comes later sees that it is offline", isStatus("offline", true))
	})
}

func (d *door) awaitUp() {
	d.T.Helper()
	d.Await("the link is up", func() bool {
		connected, _, _ := d.cloud()
		return connected
	})
}

func (d *door) awaitDown() {
	d.T.Helper()
	d.Await("the link is down", func() bool {
		connected, _, _ := d.cloud()
		return !connected
	})
}

// The states: of all stations, retained; again after a reconnect; the newest at last; gone
// with the station. How often they may come is a matter of package link.
func TestCloud_states(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		d := newDoor(t, b, 3, nil)
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}})
		isState := func(station site.StationID, lock site.LockStatus) func(cloudapp.Event) bool {
			return func(e cloudapp.Event) bool {
				return e.Kind == cloudapp.State && e.Station == station && e.State.Status == site.Online && e.State.Locks[0].Status == lock
			}
		}
		for id := range site.StationID(3) {
			e := a.next(0, "a state has come", isState(id+1, site.Locked))
			if e.State.ID != id+1 || len(e.State.Locks) != 2 || e.State.BatteryVoltage == nil || strings.Contains(string(e.Payload), "oken") {
				t.Errorf("station %d: %s", id+1, e.Payload)
			}
		}
		before := a.count()
		if _, err := d.Admin.Unlock(t.Context(), 2, 1); err != nil {
			t.Fatal(err)
		}
		a.next(before, "the open lock shows", isState(2, site.Unlocked))
		before = a.count()
		d.proxy.Cut()
		for id, lock := range map[site.StationID]site.LockStatus{1: site.Locked, 2: site.Unlocked, 3: site.Locked} {
			a.next(before, "all states have come again", isState(id, lock))
		}
		d.flicker(t, a)
		before = a.count()
		if err := d.Admin.RemoveStation(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		a.next(before, "the removed station is gone", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Removed && e.Station == 3 })
		late := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}})
		late.next(0, "a state that is retained has come", func(e cloudapp.Event) bool { return e.Kind == cloudapp.State && e.Station == 2 })
		late.next(0, "the status has come, and with it everything that is retained", isStatus("online", true))
		late.await("both states have come", func(events []cloudapp.Event) bool { return len(of(events, cloudapp.State)) >= 2 })
		for _, e := range of(late.seen(), cloudapp.State) {
			if e.Station == 3 {
				t.Errorf("the state of the removed station is there: %s", e.Payload)
			}
		}
	})
}

// flicker has a station change again and again, and sees that the last of its states comes
// and none goes back behind another.
func (d *door) flicker(t *testing.T, a *application) {
	t.Helper()
	before := a.count()
	station := d.Dial(d.rotated(t, 1))
	for n := range 200 {
		station.Publish("report", fmt.Appendf(nil, `{"batteryVoltage":%.3f}`, 3+float64(n+1)/1000))
	}
	a.next(before, "the last of many states has come", func(e cloudapp.Event) bool {
		return e.Kind == cloudapp.State && e.Station == 1 && e.State.BatteryVoltage != nil && *e.State.BatteryVoltage > 3.199
	})
	last := 3.0
	for _, e := range of(a.seen()[before:], cloudapp.State) {
		if e.Station != 1 || e.State.BatteryVoltage == nil || *e.State.BatteryVoltage > 3.2 {
			continue // another station, or a state from before
		}
		if *e.State.BatteryVoltage < last {
			t.Errorf("a state with %.3f V came after one with %.3f V", *e.State.BatteryVoltage, last)
		}
		last = *e.State.BatteryVoltage
	}
}

// Every record comes, once and in order, and then the gateway has nothing more to send;
// while nobody acknowledges, it waits.
func TestCloud_journal(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		d := newDoor(t, b, 1, nil)
		looking := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}})
		looking.next(0, "somebody who only looks on sees records", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Record })
		if _, delivered, _ := d.cloud(); delivered != 0 {
			t.Errorf("up to %d is delivered, and nobody has acknowledged anything", delivered)
		}
		looking.stopped()
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}, Acknowledge: true})
		for n := range 300 {
			name := fmt.Sprintf("door %d", n)
			if _, err := d.Admin.UpdateStation(t.Context(), 1, rename(name)); err != nil {
				t.Fatal(err)
			}
		}
		d.awaitDelivered()
		d.proxy.Cut()
		d.awaitRecord(site.KindCloudOffline)
		d.awaitUp()
		d.awaitDelivered()
		a.stopped()
		compare(t, d, a)
	})
}

func (d *door) awaitRecord(kind site.Kind) {
	d.T.Helper()
	d.AwaitRecord("a record "+string(kind), func(r site.Record) bool { return r.Kind == kind })
}

// compare sees that the application was given the journal, byte for byte, and nothing
// else.
func compare(t *testing.T, d *door, a *application) {
	t.Helper()
	records := d.Records()
	given := of(a.seen(), cloudapp.Record)
	for i, e := range given {
		if want := string(records[i].AppendJSON(nil)); string(e.Payload) != want {
			t.Fatalf("record %d is\n%s, and was given as\n%s", i+1, want, e.Payload)
		}
	}
	for _, e := range a.seen() {
		if e.Kind == cloudapp.Malformed || e.Kind == cloudapp.Gap {
			t.Errorf("event %s %s %s", e.Kind, e.Payload, e.Detail)
		}
	}
	if _, delivered, _ := d.cloud(); uint64(len(given)) < delivered || delivered < 300 {
		t.Errorf("%d records were given, and up to %d is delivered", len(given), delivered)
	}
}

// Where the broker's word counts, no application is needed.
func TestCloud_ackBroker(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		d := newDoor(t, b, 1, func(c *config.Cloud) { c.Ack = config.AckBroker })
		d.awaitDelivered()
		_, delivered, _ := d.cloud()
		if delivered == 0 {
			t.Error("nothing is delivered")
		}
		// And an application's does not: it may be about another journal.
		newSender(t, mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}).publish(api.Topic(d.id, api.AckLeaf), []byte(`{"seq":1000000}`), false)
		if _, err := d.Admin.UpdateStation(t.Context(), 1, rename("another")); err != nil {
			t.Fatal(err)
		}
		d.awaitDelivered()
	})
}

// A link over which nothing passes any more, and nobody says so: both ends notice, doors
// go on opening, and what was recorded meanwhile goes up when the link is back.
func TestCloud_blackHole(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		d := newDoor(t, b, 1, func(c *config.Cloud) { c.Keepalive = 2 * time.Second })
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}, Acknowledge: true})
		d.awaitDelivered()
		before := a.count()
		d.proxy.Hold()
		for range 10 {
			if unlocked, err := d.Admin.Unlock(t.Context(), 1, 1); err != nil || !unlocked.Outcome.Opened() {
				t.Errorf("%+v, %v", unlocked, err)
			}
		}
		a.next(before, "the broker has noticed", isStatus("offline", false))
		d.awaitDown()
		d.proxy.Release()
		a.next(before, "the gateway is back", isStatus("online", false))
		d.awaitDelivered()
		a.next(before, "what was recorded meanwhile has come", func(e cloudapp.Event) bool {
			return e.Kind == cloudapp.Record && e.Record.Kind == site.KindCloudOffline
		})
		if n := d.opened(1, 10); n != 10 {
			t.Errorf("the lock opened %d times", n)
		}
	})
}

// Two gateways under one name, which end each other's connection: both deliver all the
// same, in the time that each has, and say what is wrong.
func TestCloud_oneNameTwice(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}, Acknowledge: true})
		same := func(c *config.Cloud) { c.ClientID = "the-same" }
		d, other := newDoor(t, b, 0, same), newDoor(t, b, 0, same)
		for _, g := range []*door{d, other} {
			g.Await("it is told who ended its connection", func() bool {
				status, err := g.Admin.Status(t.Context())
				return err == nil && status.Cloud != nil && strings.Contains(status.Cloud.Advice, "client_id")
			})
		}
		for _, g := range []*door{d, other} {
			a.next(0, "it has delivered that", func(e cloudapp.Event) bool {
				return e.Kind == cloudapp.Record && e.Gateway == g.id && e.Record.Kind == site.KindCloudOffline
			})
		}
	})
}
