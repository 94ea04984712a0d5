package cloudtest_test

import (
	"context"
	"testing"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/cloudapp"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// copies is how often one command is sent.
const copies = 10_000

// One command opens the lock once, although it comes ten thousand times and the gateway
// is killed in the middle of them.
func TestCommand_copiesAndKill(t *testing.T) {
	t.Parallel()
	broker := brokertest.Mosquitto(t, brokertest.Lines("max_queued_messages 0", "max_inflight_messages 0"))
	b, s := newBoard(t), newSigner(t)
	at, err := brokertest.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "GATEHOUSE_MQTT_LISTEN="+at[0], "GATEHOUSE_CLOUD_URL="+broker.URL(), "GATEHOUSE_CLOUD_KEYS="+s.public,
		"GATEHOUSE_CLOUD_RECORDS_PER_SECOND=10000") // and twice as many messages from the cloud
	b.start()
	station := b.play(t, at[0])
	status, err := b.admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.gateway = status.GatewayID
	a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: broker.URL()}}, Acknowledge: true})
	b.awaitCloud()
	send := newSender(t, mqttclient.Config{Broker: mqttclient.Broker{URL: broker.URL()}})
	token := s.right("one-of-many")
	for n := range copies {
		send.command(s.gateway, token)
		if n == copies*4/5 { // those after it all have to be looked at before the last, which takes its time
			a.next(0, "the first is answered", func(e cloudapp.Event) bool {
				return e.Kind == cloudapp.Result && e.Result.ID == "one-of-many" && e.Result.Outcome == site.Done
			})
			b.kill()
			b.start()
			b.awaitCloud()
			b.awaitOnline(t, station)
		}
	}
	before := a.count()
	send.command(s.gateway, s.right("another"))
	a.next(before, "the last is answered", func(e cloudapp.Event) bool {
		return e.Kind == cloudapp.Result && e.Result.ID == "another" && e.Result.Outcome == site.Done
	})
	await.Until(t, "the lock has opened twice", func() bool { return station.Status().Opened >= 2 })
	if opened := station.Status().Opened; opened != 2 {
		t.Errorf("the lock opened %d times for two commands", opened)
	}
	repeated := 0
	for _, e := range of(a.seen(), cloudapp.Result) {
		if e.Result.ID == "one-of-many" && e.Result.Reason == "repeated" && e.Result.First.Outcome == site.Done {
			repeated++
		}
	}
	intents := 0
	for r, err := range b.admin.Journal(t.Context(), client.JournalQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.JTI == "one-of-many" && r.Outcome == site.Requested {
			intents++
		}
	}
	if repeated == 0 || intents != 1 {
		t.Errorf("%d copies were answered as such; the journal has %d attempts", repeated, intents)
	}
}

// play enrols and runs a simulated station until the test ends.
func (b *board) play(t *testing.T, address string) *stationsim.Station {
	t.Helper()
	issued, err := b.admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1, Locks: 1})
	if err != nil {
		t.Fatal(err)
	}
	station, err := stationsim.New(stationsim.Config{
		Broker: stationsim.Broker{Address: address}, ID: 1, Secret: site.Secret(issued.MQTT.Password), Actuation: time.Millisecond, Relock: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- station.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	b.awaitOnline(t, station)
	return station
}

func (b *board) awaitOnline(t *testing.T, station *stationsim.Station) {
	t.Helper()
	await.Until(t, "the station is online", func() bool {
		all, err := b.admin.Stations(t.Context())
		return err == nil && len(all) == 1 && all[0].Status == site.Online && station.Status().Connected
	})
}

func (b *board) awaitCloud() {
	b.t.Helper()
	await.Until(b.t, "the cloud link is up", func() bool {
		status, err := b.admin.Status(b.t.Context())
		return err == nil && status.Cloud != nil && status.Cloud.Connected
	})
}
