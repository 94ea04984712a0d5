package stationsim_test

import (
	"context"
	"testing"
	"testing/synctest"

	"gatehouse/internal/door/stationsim"
)

func TestFleet_Run_gateBoundsConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &gatedBroker{release: make(chan struct{})}
		const most = 64
		cfg := stationsim.FleetConfig{}
		cfg.Each.Broker = stationsim.Broker{Address: "broker.test:1883", Dial: gate.dial}
		for id := range 2 * most {
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
		if n := gate.dialling.Load(); n != most {
			t.Errorf("%d stations connect at once, want %d", n, most)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := gate.dialling.Load(); n != most {
			t.Errorf("%d stations began to connect, want no more than the first %d", n, most)
		}
	})
}

func TestNewFleet_refusesNonsense(t *testing.T) {
	for name, change := range map[string]func(*stationsim.FleetConfig){
		"no broker":      func(c *stationsim.FleetConfig) { c.Each.Broker.Address = "" },
		"no id":          func(c *stationsim.FleetConfig) { c.Members[0].ID = 0 },
		"too many locks": func(c *stationsim.FleetConfig) { c.Members[0].Locks = 65 },
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
