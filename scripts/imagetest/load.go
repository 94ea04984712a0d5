package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/door/stationsim"
)

// clients is how many apps unlock at once under load.
const clients = 8

// record is what clients and stations have seen: what the journal must have.
type record struct {
	mu       sync.Mutex      // guards what follows
	answered map[string]bool // commands whose client was told success
	opened   map[string]bool // commands that opened a lock
	fire     chan struct{}   // closed when trigger more unlocks were answered
	trigger  int
}

func newRecord() *record {
	return &record{answered: map[string]bool{}, opened: map[string]bool{}}
}

// arm returns a channel that is closed when so many more unlocks were answered.
func (r *record) arm(answers int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trigger, r.fire = answers, make(chan struct{})
	return r.fire
}

func (r *record) answer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered[id] = true
	if r.trigger--; r.trigger == 0 {
		close(r.fire)
	}
}

func (r *record) event(e stationsim.Event) {
	if e.Kind != stationsim.Opened {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened[string(e.Command)] = true
}

// copies returns what was seen so far.
func (r *record) copies() (answered, opened map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.answered), maps.Clone(r.opened)
}

// playStations plays the site's stations until the function that it returns is called.
func (t *trial) playStations(ctx context.Context, m *machine) (stop func(), err error) {
	fleet, err := stationsim.NewFleet(stationsim.FleetConfig{
		Members: t.site.members(),
		Each: stationsim.Config{
			Broker:    stationsim.Broker{Address: m.mqtt},
			Actuation: 10 * time.Millisecond, Relock: 50 * time.Millisecond,
			Backoff: stationsim.Backoff{Max: time.Second},
			OnEvent: t.record.event,
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = fleet.Run(ctx) })
	return func() { cancel(); running.Wait() }, nil
}

// firstUnlock tries until a door has opened.
func (t *trial) firstUnlock(ctx context.Context, c *client) error {
	return await(ctx, "a door opens", func() error {
		id, success, err := c.unlock(ctx, t.site.Stations[0].Token, 1)
		if err == nil && !success {
			err = errNotOpened
		}
		if err == nil {
			t.record.answer(id)
		}
		return err
	})
}

// load unlocks with all clients until the function that it returns is called, which
// waits for their ends.
func (t *trial) load(ctx context.Context, c *client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i := range clients {
		station := t.site.Stations[i%len(t.site.Stations)]
		lock := 1 + i/len(t.site.Stations)%2
		running.Go(func() {
			for ctx.Err() == nil {
				id, success, err := c.unlock(ctx, station.Token, lock)
				switch {
				case err != nil: // the power is off, or the client is to end
					pause(ctx, 20*time.Millisecond)
				case success:
					t.record.answer(id)
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stationsOnline waits until the gateway has all stations.
func (t *trial) stationsOnline(ctx context.Context, m *machine) error {
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	return await(ctx, "all stations are online", func() error {
		out, err := s.run(ctx, "gatehouse station list")
		if err == nil && strings.Count(out, "online") < len(t.site.Stations) {
			err = fmt.Errorf("gatehouse station list says:\n%s", out)
		}
		return err
	})
}
