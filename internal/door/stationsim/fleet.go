package stationsim

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/site"
)

// connectsAtOnce is how many stations of a fleet connect at the same time.
const connectsAtOnce = 64

// Member is what distinguishes one station of a fleet.
type Member struct {
	ID     site.StationID
	Locks  int
	Secret site.Secret
}

// FleetConfig describes many stations that differ only in what [Member] has.
type FleetConfig struct {
	Members []Member
	Each    Config // what all share; the fields of Member are set for each
}

// Fleet is a number of stations in one process.
type Fleet struct {
	Stations []*Station
}

// NewFleet makes the stations of a fleet; they are not running yet.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	gate := make(chan struct{}, connectsAtOnce)
	fleet := &Fleet{Stations: make([]*Station, 0, len(cfg.Members))}
	for _, m := range cfg.Members {
		each := cfg.Each
		each.ID, each.Locks, each.Secret, each.gate = m.ID, m.Locks, m.Secret, gate
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
