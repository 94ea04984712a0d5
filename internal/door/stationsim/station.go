package stationsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"

	"gatehouse/internal/site"
)

// Status is what a station looks like from outside at one moment.
type Status struct {
	ID             site.StationID
	Name           string
	Connected      bool
	BatteryVoltage float64
	Locks          []site.LockStatus // by lock, lock-1 first
	Commands       int               // received since the start
	Opened         int               // times that a lock opened since the start
	Last           Event             // the latest event other than a report
}

// Station is one simulated station. Its methods are safe for concurrent use; Run
// may be called once.
type Station struct {
	cfg Config

	mu      sync.Mutex // guards the fields below
	status  Status
	changed chan struct{} // closed and replaced when status changes
}

// New makes a station that is not running yet.
func New(cfg Config) (*Station, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("simulated station: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Station{cfg: cfg, changed: make(chan struct{})}
	s.status = Status{ID: cfg.ID, Name: cfg.Name, BatteryVoltage: hundredths(cfg.Battery.Start)}
	s.status.Locks = slices.Repeat([]site.LockStatus{site.Locked}, cfg.Locks)
	return s, nil
}

// Status gives the station's present state.
func (s *Station) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copyStatus()
}

func (s *Station) copyStatus() Status {
	out := s.status
	out.Locks = slices.Clone(out.Locks)
	return out
}

// Wait returns as soon as the station's status satisfies condition, or with the
// error of ctx.
func (s *Station) Wait(ctx context.Context, condition func(Status) bool) error {
	for {
		s.mu.Lock()
		status, changed := s.copyStatus(), s.changed
		s.mu.Unlock()
		if condition(status) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for station %d: %w", s.cfg.ID, ctx.Err())
		}
	}
}

// Run plays the station until ctx ends; then it disconnects and returns nil.
func (s *Station) Run(ctx context.Context) error {
	now := s.cfg.Clock.Now()
	r := &run{
		station: s, cfg: s.cfg, device: newDevice(s.cfg, now),
		dialled: make(chan attempt, 1), retryAt: now.Add(s.cfg.StartDelay),
	}
	defer r.end()
	for ctx.Err() == nil {
		r.step(ctx)
	}
	return nil
}

// run is one running station; only Run's goroutine touches it.
type run struct {
	station *Station
	cfg     Config
	device  *device

	link     *link     // nil while not connected
	since    time.Time // of link
	dialling bool      // exactly one value is due on dialled
	dialled  chan attempt
	retryAt  time.Time
	attempts int
}

// attempt is how one attempt to connect ended.
type attempt struct {
	link *link
	err  error
}

// step waits for one thing to happen and deals with it and whatever is due.
func (r *run) step(ctx context.Context) {
	var inbox chan mqtt.Message
	var lost chan error
	if r.link != nil {
		inbox, lost = r.link.inbox, r.link.lost
	}
	select {
	case <-ctx.Done():
		return
	case m := <-inbox:
		r.carryOut(r.device.receive(r.now(), m.Payload(), r.link, m.Ack))
	case err := <-lost:
		r.disconnected(err)
	case a := <-r.dialled:
		r.dialling = false
		r.connect(a)
	case <-r.cfg.Clock.After(r.pause()):
	}
	if r.link == nil && !r.dialling && !r.now().Before(r.retryAt) {
		r.dialling = true
		go func() { r.dialled <- r.dial(ctx) }()
	}
	r.carryOut(r.device.advance(r.now()))
}

func (r *run) now() time.Time { return r.cfg.Clock.Now() }

// pause gives how long nothing is due.
func (r *run) pause() time.Duration {
	due := r.device.next()
	if r.link == nil && !r.dialling && r.retryAt.Before(due) {
		due = r.retryAt
	}
	return due.Sub(r.now())
}

// dial connects once there is room at the gate.
func (r *run) dial(ctx context.Context) attempt {
	if gate := r.cfg.Gate; gate != nil {
		select {
		case gate <- struct{}{}:
			defer func() { <-gate }()
		case <-ctx.Done():
			return attempt{err: ctx.Err()}
		}
	}
	l, err := dial(ctx, r.cfg)
	return attempt{link: l, err: err}
}

// connect takes over a new link, or plans the next attempt.
func (r *run) connect(a attempt) {
	if a.err != nil {
		r.emit(Event{Kind: Refused, Detail: reason(a.err)})
		r.planRetry()
		return
	}
	r.link, r.since = a.link, r.now()
	r.emit(Event{Kind: Connected})
	r.report()
}

// settled is how long a link must have held for the backoff to start afresh.
const settled = 5 * time.Second

func (r *run) disconnected(err error) {
	lost := r.link
	r.link = nil
	if r.now().Sub(r.since) >= settled {
		r.attempts = 0
	}
	detail := "the connection ended"
	if err != nil {
		detail = err.Error()
	}
	r.emit(Event{Kind: Disconnected, Detail: detail})
	r.carryOut(r.device.unlink(r.now(), lost))
	r.planRetry()
}

// planRetry sets the time of the next attempt (see [Backoff]).
func (r *run) planRetry() {
	bound := r.cfg.Backoff.Max
	if shifted := r.cfg.Backoff.Min << min(r.attempts, 20); shifted > 0 && shifted < bound {
		bound = shifted
	}
	r.attempts++
	half := bound / 2
	r.retryAt = r.now().Add(half + time.Duration(r.device.random.Int64N(int64(half)+1)))
}

// carryOut does what the hardware wants done. Without a connection, results are
// lost; the state is reported at the next connection.
func (r *run) carryOut(e effects) {
	for _, f := range e.refusals {
		if r.link != nil {
			r.link.refuse(resultTopic(r.cfg.ID), f.result, f.ack)
		}
	}
	for _, ack := range e.acks {
		ack()
	}
	for _, res := range e.results {
		if r.link != nil {
			r.link.publish(resultTopic(r.cfg.ID), 1, res)
		}
	}
	for _, event := range e.events {
		r.emit(event)
	}
	if e.report {
		r.report()
	}
}

func (r *run) report() {
	if r.link == nil {
		return
	}
	message := r.device.report(r.now())
	r.link.publish(reportTopic(r.cfg.ID), 1, message)
	r.emit(Event{Kind: Reported, BatteryVoltage: message.BatteryVoltage})
}

// emit brings the status up to date and tells the listener.
func (r *run) emit(e Event) {
	e.Station = r.cfg.ID
	if e.Time.IsZero() {
		e.Time = site.At(r.now())
	}
	r.station.note(e, r.link != nil, r.device)
	if r.cfg.OnEvent != nil {
		r.cfg.OnEvent(e)
	}
}

func (s *Station) note(e Event, connected bool, d *device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.status
	st.Connected, st.BatteryVoltage, st.Locks = connected, hundredths(d.volts), d.statuses()
	switch e.Kind {
	case Received:
		st.Commands++
	case Opened:
		st.Opened++
	}
	if e.Kind != Reported {
		st.Last = e
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// end leaves no connection and no goroutine behind.
func (r *run) end() {
	if r.dialling {
		if a := <-r.dialled; a.link != nil {
			a.link.close()
		}
	}
	if r.link != nil {
		r.link.close()
		r.link = nil
		r.emit(Event{Kind: Disconnected, Detail: "the station was switched off"})
	}
}

// reason says why the broker would not have the station.
func reason(err error) string {
	for _, refusal := range packets.ConnErrors {
		if refusal != nil && errors.Is(err, refusal) && !errors.Is(err, packets.ErrorNetworkError) {
			return "the broker says: " + refusal.Error()
		}
	}
	return strings.Replace(err.Error(), packets.ErrorNetworkError.Error()+" : ", "", 1)
}
