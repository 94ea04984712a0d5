package stationtest_test

import (
	"os"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// station is one that reports its uptime first after each connection, and a closed door.
type station struct {
	// reportOld publishes a report of a minute ago, when the door was open. The library keeps
	// it, and so does the firmware, which publishes it behind the present state after the next
	// connection.
	reportOld func()
	delivered chan struct{}      // gets a value when the broker has acknowledged that
	left      chan time.Duration // gets, of each command, what was left to notAfter
}

// survivesOutage cuts the network after the station has published a report that does not
// arrive, and lets it connect again: the door opens as before, and is as it was reported last.
func survivesOutage(t *testing.T, start func(t *testing.T, address string, login adminapi.MQTTLogin) station) {
	g := gatewaytest.Start(t, gatewaytest.Configure(t))
	proxy := brokertest.NewProxy(t, g.MQTT)
	s := start(t, proxy.Address(), g.Enrol(1042).MQTT)
	door := func() (door site.DoorStatus, subscribed bool) {
		state, err := g.Admin.Station(t.Context(), 1042)
		if err != nil {
			t.Fatal(err)
		}
		return state.Locks[0].Door, *state.Subscribed
	}
	there := func() bool {
		door, subscribed := door()
		return subscribed && door != ""
	}
	g.Await("the station is there", there)
	proxy.Hold()
	s.reportOld()
	proxy.Cut()
	g.AwaitOnline(1042, false)
	proxy.Release()
	await.Receive(t, "the old report is delivered", s.delivered)
	g.Await("the station is back", there)
	if door, _ := door(); door != site.DoorClosed {
		t.Errorf("the door is %s", door)
	}
	unlocked, err := g.Admin.Unlock(t.Context(), 1042, 1)
	if err != nil || unlocked.Outcome != site.Done {
		t.Errorf("outcome %s, %v", unlocked.Outcome, err)
	}
	ttl := g.Config.Unlock.TTL
	if left := await.Receive(t, "a command", s.left); left > ttl || left < ttl-30*time.Second {
		t.Errorf("the station has %s of %s left", left, ttl)
	}
	for _, r := range g.Records() {
		if r.Kind == site.KindDoorForced {
			t.Errorf("a false alarm: %+v", r)
		}
	}
}
