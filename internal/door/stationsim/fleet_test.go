package stationsim_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/stationsim"
)

// playSeeded sends twelve commands to a station of a seeded fleet that jams
// half of the time.
func playSeeded(t *testing.T) []stationsim.Kind {
	b := &pipeBroker{t: t}
	events := &journal{}
	fleet, err := stationsim.NewFleet(stationsim.FleetConfig{
		Seed:    1,
		Members: []stationsim.Member{{ID: 7, Locks: 1, Secret: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}},
		Spread:  time.Second,
		Each: stationsim.Config{
			Broker:  stationsim.Broker{Address: "broker.test:1883", Dial: b.dial},
			Faults:  stationsim.Faults{Jam: 0.5},
			OnEvent: events.note,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- fleet.Run(ctx) }()
	after(time.Second)
	for i := range 12 {
		b.command(fmt.Sprintf(`{"id":"c-%d","command":"unlock","lockId":"lock-1","ttl":5}`, i))
		after(time.Second)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	return events.kinds()
}

func TestFleet_Run_gateBoundsConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &gatedBroker{release: make(chan struct{})}
		cfg := stationsim.FleetConfig{ConnectsAtOnce: 3}
		cfg.Each.Broker = stationsim.Broker{Address: "broker.test:1883", Dial: gate.dial}
		for id := range 20 {
			cfg.Members = append(cfg.Members, stationsim.Member{ID: stationID(id + 1), Secret: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
		}
		fleet, err := stationsim.NewFleet(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- fleet.Run(ctx) }()
		synctest.Wait()
		if n := gate.dialling.Load(); n != 3 {
			t.Errorf("%d stations connect at once, want 3", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := gate.dialling.Load(); n != 3 {
			t.Errorf("%d stations began to connect, want no more than the first 3", n)
		}
	})
}

func TestNewFleet_refusesNonsense(t *testing.T) {
	for name, change := range map[string]func(*stationsim.FleetConfig){
		"no broker":      func(c *stationsim.FleetConfig) { c.Each.Broker.Address = "" },
		"no id":          func(c *stationsim.FleetConfig) { c.Members[0].ID = 0 },
		"too many locks": func(c *stationsim.FleetConfig) { c.Members[0].Locks = 65 },
		"probability":    func(c *stationsim.FleetConfig) { c.Each.Faults.Drop = 1.5 },
		"negative":       func(c *stationsim.FleetConfig) { c.Each.Relock = -time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := stationsim.FleetConfig{Members: []stationsim.Member{{ID: 1, Locks: 1}}}
			cfg.Each.Broker.Address = "127.0.0.1:1883"
			change(&cfg)
			if _, err := stationsim.NewFleet(cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}
