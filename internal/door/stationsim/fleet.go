package stationsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/site"
)

// connectsAtOnce is how many stations of a fleet connect at the same time unless
// its configuration says otherwise.
const connectsAtOnce = 64

// Member is what distinguishes one station of a fleet.
type Member struct {
	ID     site.StationID
	Locks  int
	Secret site.Secret
}

// FleetConfig describes many stations that differ only as [Member] says.
type FleetConfig struct {
	Members        []Member
	Each           Config        // what all share; the fields of Member and Random are set for each
	Seed           uint64        // the same seed makes the same choices; zero: a random one
	ConnectsAtOnce int           // default 64
	Spread         time.Duration // the first connections are spread over this time
}

// Fleet is a number of stations in one process.
type Fleet struct {
	Stations []*Station
}

// NewFleet makes the stations of a fleet; they are not running yet.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64() //nolint:gosec // plays hardware, guards nothing
	}
	orDefault(&cfg.ConnectsAtOnce, connectsAtOnce)
	gate := make(chan struct{}, max(cfg.ConnectsAtOnce, 1))
	fleet := &Fleet{Stations: make([]*Station, 0, len(cfg.Members))}
	for _, m := range cfg.Members {
		each := cfg.Each
		each.ID, each.Locks, each.Secret, each.gate = m.ID, m.Locks, m.Secret, gate
		each.Random = rand.New(rand.NewPCG(cfg.Seed, uint64(m.ID))) //nolint:gosec // plays hardware, guards nothing
		if cfg.Spread > 0 {
			each.startDelay = time.Duration(each.Random.Int64N(int64(cfg.Spread)))
		}
		station, err := New(each)
		if err != nil {
			return nil, fmt.Errorf("station %d: %w", m.ID, err)
		}
		fleet.Stations = append(fleet.Stations, station)
	}
	return fleet, nil
}

// Run plays all stations until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, station := range f.Stations {
		group.Go(func() error { return station.Run(ctx) })
	}
	return group.Wait()
}

// Statuses returns the present state of every station, in the order of Stations.
func (f *Fleet) Statuses() []Status {
	out := make([]Status, len(f.Stations))
	for i, station := range f.Stations {
		out[i] = station.Status()
	}
	return out
}
