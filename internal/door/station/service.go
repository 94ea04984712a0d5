// Package station holds what is there: the enrolled stations, the secrets by
// which their hardware logs in, their live presence, and what each last said of
// its battery, its firmware and its locks.
//
// It decides nothing about who may open a door (package access), sends nothing
// to a station (package unlock, through the station link) and speaks no MQTT. The
// broker asks it who a connection is, the station link passes on what stations
// say, the HTTP interfaces read it, administration enrols and removes.
//
// Its promises:
//
//   - Memory answers every read; the store is written first by every change of
//     an administrator, so that what was confirmed survives a power cut, and a
//     change that cannot be stored changes nothing. The exception is what it
//     revokes, a station, a secret or a right of Home Assistant, see package amend.
//   - A secret that was replaced, or whose station was removed, opens no new
//     connection, not even one that had authenticated a moment before.
//   - A report changes what it states validly and nothing else.
//   - Live state reaches the disk in coalesced batches, and no station can
//     multiply journal records without bound.
package station

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Config is what [New] needs: all of it, but for BatteryLow and Alarms.
type Config struct {
	Store      Store
	Changes    *amend.Service // makes the changes of administrators
	Journal    Journal
	Clock      site.Clock
	Logger     *slog.Logger
	Metrics    *metric.Registry
	Health     *health.Registry
	Alarms     AlarmLimits   // until SetAlarms
	BatteryLow float64       // volts; below it a battery counts as low; zero: never
	FlushEvery time.Duration // between two writes of changed states
}

// Service keeps the stations. Safe for concurrent use; [Service.State],
// [Service.ByToken], [Service.Authenticate] and [Service.Heard] are made for
// tens of thousands of calls a second and wait for no storage.
type Service struct {
	*eventLog

	cfg Config

	nobody      *live                // compared in place of an unknown station in Authenticate
	generations atomic.Uint64        // the last generation given out, over all stations
	revoked     func(site.StationID) // see OnRevoked
	pending     []site.Amendment     // those of foresee; package amend calls its functions one at a time
	flushed     time.Time            // when states were saved last; of the goroutine of Run

	limits atomic.Pointer[AlarmLimits]

	mu      sync.RWMutex // mu guards the maps
	byID    map[site.StationID]*live
	byToken map[tokenKey]*live
}

// New loads the stations and their last known states from the store; every
// station is offline until it connects. It starts nothing: see [Service.Run].
func New(ctx context.Context, c Config) (*Service, error) {
	s := &Service{
		cfg: c, revoked: func(site.StationID) {},
		eventLog: newEventLog(),
		nobody:   newLive(site.Station{Secret: hashSecret(newSecret())}, 0),
		byID:     make(map[site.StationID]*live),
		byToken:  make(map[tokenKey]*live),
	}
	s.SetAlarms(c.Alarms)
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.reportAlarms()
	s.cfg.Changes.OnStored(s.adopt)
	s.cfg.Changes.OnPending(s.foresee)
	s.cfg.Metrics.Gauge("gatehouse_stations_online", func() float64 { return float64(s.Online()) })
	s.cfg.Metrics.Gauge("gatehouse_stations_enrolled", func() float64 { return float64(len(s.all())) })
	return s, nil
}

func (s *Service) load(ctx context.Context) error {
	stations, states, err := s.cfg.Store.LoadStations(ctx)
	if err != nil {
		return fmt.Errorf("loading the stations: %w", err)
	}
	for _, st := range stations {
		l := newLive(st, s.generations.Add(1))
		s.byID[st.ID] = l
		s.byToken[keyOf(st.Token)] = l
	}
	for _, saved := range states {
		if l, ok := s.byID[saved.Station]; ok {
			l.restore(saved, s.cfg.BatteryLow)
		}
	}
	return nil
}

// Stations lists the enrolled stations by id.
func (s *Service) Stations() []site.Station {
	all := s.all()
	out := make([]site.Station, len(all))
	for i, l := range all {
		out[i] = l.enrolled.Load().station
	}
	return out
}

// Station returns the enrolled station of that id.
func (s *Service) Station(id site.StationID) (site.Station, bool) {
	l, ok := s.find(id)
	if !ok {
		return site.Station{}, false
	}
	return l.enrolled.Load().station, true
}

// ByToken returns the station that a station token names. How long it takes says
// nothing about how much of a token is right: the look-up is by its hash.
func (s *Service) ByToken(token site.Secret) (site.Station, bool) {
	if len(token) > site.MaxStationToken {
		return site.Station{}, false
	}
	key := keyOf(token)
	s.mu.RLock()
	l, ok := s.byToken[key]
	s.mu.RUnlock()
	if !ok {
		return site.Station{}, false
	}
	return l.enrolled.Load().station, true
}

// HasLock reports whether the station exists and was enrolled with that lock.
func (s *Service) HasLock(id site.StationID, lock site.LockID) bool {
	l, ok := s.find(id)
	return ok && l.enrolled.Load().station.HasLock(lock)
}

// OnRevoked sets what is called after the secret of a station was revoked or replaced, or the
// station was removed: it must end the live connection of that station, and return soon.
// To be set once, before the first connection.
//
// No connection slips through when the one who holds connections registers each
// where this function finds it before calling [Service.Connected], and ends it
// when that refuses.
func (s *Service) OnRevoked(end func(site.StationID)) { s.revoked = end }

func (s *Service) find(id site.StationID) (*live, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l, ok := s.byID[id]
	return l, ok
}

// with calls f for a station with mu held, and reports whether there is such a station.
func (s *Service) with(id site.StationID, f func(*live)) bool {
	l, ok := s.find(id)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
	return true
}

// all returns the live stations by id.
func (s *Service) all() []*live {
	s.mu.RLock()
	out := make([]*live, 0, len(s.byID))
	for _, l := range s.byID {
		out = append(out, l)
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b *live) int { return cmp.Compare(a.id, b.id) })
	return out
}

// errNotFound is the answer for a station that is not enrolled.
func errNotFound() error { return fault.New(fault.NotFound, "Station not found") }
