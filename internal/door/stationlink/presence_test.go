package stationlink_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// stations is a store and a journal for package station that keep nothing.
type stations struct{ station.Store }

func (stations) LoadStations(context.Context) ([]site.Station, []station.SavedState, error) {
	return nil, nil, nil
}
func (stations) Amend(context.Context, func() error, []site.Amendment) error { return nil }
func (stations) AppendLater(site.Record)                                     {}
func (stations) Now() time.Time                                              { return time.Now() }
func (stations) Trusted() bool                                               { return true }

// gated is the real presence; between is called in Disconnected and in Connected before
// the presence hears of it.
type gated struct {
	*station.Service
	beforeDisconnected, beforeConnected func()
}

func (g *gated) Disconnected(id site.StationID, connection site.ConnectionID, reason string) bool {
	if f := g.beforeDisconnected; f != nil {
		g.beforeDisconnected = nil
		f()
	}
	return g.Service.Disconnected(id, connection, reason)
}

func (g *gated) Connected(id site.StationID, connection site.ConnectionID, generation uint64, remote string) error {
	if f := g.beforeConnected; f != nil {
		g.beforeConnected = nil
		f()
	}
	return g.Service.Connected(id, connection, generation, remote)
}

func newGated(t *testing.T) (*stationlink.Link, *gated) {
	t.Helper()
	s, err := station.New(t.Context(), station.Config{
		FlushEvery: time.Minute, Store: stations{}, Changes: amend.New(stations{}), Journal: stations{}, Clock: stations{},
		Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{}, Metrics: metric.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enrol(t.Context(), site.Actor{}, station.EnrolRequest{ID: gate, Locks: 2}); err != nil {
		t.Fatal(err)
	}
	g := &gated{Service: s}
	return stationlink.New(g, &health.Registry{}, metric.New(), slog.New(slog.DiscardHandler)), g
}

func (g *gated) status() site.StationStatus {
	state, _ := g.State(gate)
	return state.Status
}

// A connection ends, and its successor begins before the presence has heard of that end:
// the station stays online, and goes offline with the successor.
func TestLink_Disconnected_racesItsSuccessor(t *testing.T) {
	l, g := newGated(t)
	first := connect(t, l, &conn{number: 1, qos: 1})
	second := &conn{number: 2, qos: 1}
	g.beforeDisconnected = func() { connect(t, l, second) }
	l.Disconnected(first, "lost")
	if got := g.status(); got != site.Online {
		t.Errorf("the station has a live connection and is %s", got)
	}
	l.Disconnected(second, "lost")
	if got := g.status(); got != site.Offline {
		t.Errorf("the station has no connection and is %s", got)
	}
}

// The secret is rotated while a second connection takes over: both end, and the station
// is offline.
func TestLink_Connected_rotatedDuringTakeOver(t *testing.T) {
	l, g := newGated(t)
	first := connect(t, l, &conn{number: 1, qos: 1})
	g.beforeConnected = func() {
		if _, err := g.Rotate(t.Context(), site.Actor{}, gate); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Connected(&conn{number: 2, qos: 1}); err == nil {
		t.Fatal("a connection with an old secret was accepted")
	}
	l.Disconnected(first, "taken over")
	if got := g.status(); got != site.Offline {
		t.Errorf("the station has no connection and is %s", got)
	}
}
