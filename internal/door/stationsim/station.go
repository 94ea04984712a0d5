package stationsim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// Status is what a station has come to.
type Status struct {
	Connected bool
	Opened    int // times that a lock opened since the start
}

const (
	firmware = "sim-1.0.0"
	// perOpening is what an opening drains from the battery, in volts.
	perOpening = 0.002
	// emptyBattery is the voltage at which the battery is changed for a full one.
	emptyBattery = 3.10
	// settled is how long a connection must have held for the backoff to start afresh.
	settled = 5 * time.Second
)

// Station is one simulated station. Its methods are safe for concurrent use; Run
// may be called once.
type Station struct {
	cfg      Config
	commands chan struct{}  // holds a token for each command in flight
	running  sync.WaitGroup // of locks that will lock again

	telling sync.Mutex // held while an event is passed on or a report is sent, so that both keep their order

	mu      sync.Mutex // mu guards the fields below
	opened  int
	link    *link // nil while not connected
	locks   []lock
	ids     []site.CommandID           // the latest, oldest first
	results map[site.CommandID]*result // of ids; nil while the command is in flight
	full    float64                    // volts of a full battery
	volts   float64
	drained time.Time // when volts was brought up to date
}

// New makes a station that is not running yet.
func New(cfg Config) (*Station, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("simulated station: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Station{
		cfg: cfg, commands: make(chan struct{}, maxCommands),
		locks: slices.Repeat([]lock{{status: site.Locked}}, cfg.Locks), results: make(map[site.CommandID]*result),
		full: 3.60 + 0.55*rand.Float64(), drained: time.Now(), //nolint:gosec // plays hardware, guards nothing
	}
	s.volts = s.full
	return s, nil
}

// Status returns the station's present state.
func (s *Station) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Connected: s.link != nil, Opened: s.opened}
}

// Run plays the station until ctx ends; then it disconnects and returns nil.
func (s *Station) Run(ctx context.Context) error {
	defer s.end()
	attempts := 0
	for pause := time.Duration(0); wait(ctx, pause); pause = s.backoff(attempts) {
		attempts++
		l, err := s.connect(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.emit(Event{Kind: Refused, Detail: err.Error()})
			}
			continue
		}
		since := time.Now()
		s.serve(ctx, l)
		if time.Since(since) >= settled {
			attempts = 0
		}
	}
	return nil
}

// end waits for the commands in flight, and keeps further ones out.
func (s *Station) end() {
	for range maxCommands {
		s.commands <- struct{}{}
	}
	s.running.Wait()
}

// wait waits; false when ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// backoff returns the pause before the next attempt to connect (see [Backoff]).
func (s *Station) backoff(attempts int) time.Duration {
	bound := s.cfg.Backoff.Max
	if shifted := s.cfg.Backoff.Min << min(max(attempts-1, 0), 20); shifted > 0 && shifted < bound {
		bound = shifted
	}
	return between(bound/2, bound)
}

// between returns a random duration.
func between(least, most time.Duration) time.Duration {
	return least + rand.N(most-least+1) //nolint:gosec // plays hardware, guards nothing
}

// serve reports now and then for as long as the connection holds. Periodic reports of a
// fleet are spread over time.
func (s *Station) serve(ctx context.Context, l *link) {
	s.setLink(l)
	s.emit(Event{Kind: Connected})
	s.report()
	for {
		timer := time.NewTimer(between(s.cfg.ReportEvery/2, s.cfg.ReportEvery))
		select {
		case <-timer.C:
			s.report()
			continue
		case err := <-l.lost:
			s.setLink(nil)
			s.emit(Event{Kind: Disconnected, Detail: err.Error()})
		case <-ctx.Done():
			l.close()
			s.setLink(nil)
			s.emit(Event{Kind: Disconnected, Detail: "the station was switched off"})
		}
		timer.Stop()
		return
	}
}

func (s *Station) setLink(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
}

// report reports the state, if there is a connection; else the next one begins with it. No
// report overtakes one with an older state.
func (s *Station) report() {
	s.telling.Lock()
	s.mu.Lock()
	r, l := s.state(), s.link
	s.mu.Unlock()
	if l != nil {
		l.publish(reportTopic(s.cfg.ID), r)
	}
	s.telling.Unlock()
	if l != nil {
		s.emit(Event{Kind: Reported, BatteryVoltage: r.BatteryVoltage})
	}
}

// state returns what the station reports now, and drains the battery up to now; mu is
// held.
func (s *Station) state() report {
	now := time.Now()
	s.volts -= s.cfg.Drain * now.Sub(s.drained).Hours()
	s.drained = now
	if s.volts <= emptyBattery {
		s.volts = s.full
	}
	r := report{Uptime: s.cfg.Uptime().Milliseconds(), BatteryVoltage: math.Round(s.volts*100) / 100, Firmware: firmware}
	for i, l := range s.locks {
		r.Locks = append(r.Locks, reportLock{LockID: site.LockID(i + 1).String(), Status: l.status})
		switch {
		case l.passing > 0:
			r.Locks[i].Door = site.DoorOpen
		case s.cfg.DoorOpen > 0:
			r.Locks[i].Door = site.DoorClosed
		}
	}
	return r
}

// emit passes an event on.
func (s *Station) emit(e Event) {
	s.telling.Lock()
	defer s.telling.Unlock()
	e.Station, e.Time = s.cfg.ID, site.At(time.Now())
	if s.cfg.OnEvent != nil {
		s.cfg.OnEvent(e)
	}
}
