package station_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

const (
	secret = site.Secret("HARDWARE-SECRET-ONE")
	token  = site.Secret("token-number-one")
)

// epoch is when every test begins.
func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// admin is who administers in tests.
func admin() site.Actor { return site.Actor{Origin: site.Admin, Name: "uid 1000 (porter)"} }

// handClock is a clock that a test moves.
type handClock struct {
	mu  sync.Mutex // mu guards now
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Trusted() bool { return true }

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// hookClock calls within once, at the first reading after it was set.
type hookClock struct {
	systemClock
	within atomic.Pointer[func()]
}

func (c *hookClock) Now() time.Time {
	if within := c.within.Swap(nil); within != nil {
		(*within)()
	}
	return c.systemClock.Now()
}

// systemClock follows the time of a synctest bubble.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) Trusted() bool  { return true }

// memory is a store and a journal in memory, with the constraints of the real one.
type memory struct {
	mu       sync.Mutex // mu guards what follows
	stations map[site.StationID]site.Station
	states   map[site.StationID]station.SavedState
	admin    []site.Record // records of the store's use cases
	later    []site.Record // records of AppendLater
	saves    [][]station.SavedState
	writes   int
	fail     error
	within   func(context.Context) // called within each use case, without mu
	saving   func()                // called once, within the next SaveStates, without mu
}

func newMemory() *memory {
	return &memory{stations: map[site.StationID]site.Station{}, states: map[site.StationID]station.SavedState{}}
}

func (m *memory) LoadStations(context.Context) ([]site.Station, []station.SavedState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.stations)), slices.Collect(maps.Values(m.states)), m.fail
}

func (m *memory) Amend(ctx context.Context, _ func() error, all []site.Amendment) error {
	return m.write(ctx, all[0].Record, func() error {
		for _, a := range all {
			if err := m.amend(a); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *memory) amend(a site.Amendment) error {
	switch {
	case a.AddStation != nil:
		if _, taken := m.stations[a.AddStation.ID]; taken || m.hasToken(*a.AddStation) {
			return fault.New(fault.Conflict, "It exists already")
		}
		m.stations[a.AddStation.ID] = *a.AddStation
	case a.UpdateStation != nil:
		if _, known := m.stations[a.UpdateStation.ID]; !known {
			return fault.New(fault.NotFound, "Station not found")
		}
		if m.hasToken(*a.UpdateStation) {
			return fault.New(fault.Conflict, "It exists already")
		}
		m.stations[a.UpdateStation.ID] = *a.UpdateStation
	case a.DropSecret != 0, a.LimitStation != nil:
		return m.revoke(a)
	default:
		if _, known := m.stations[a.RemoveStation]; !known {
			return fault.New(fault.NotFound, "Station not found")
		}
		delete(m.stations, a.RemoveStation)
		delete(m.states, a.RemoveStation)
	}
	return nil
}

func (m *memory) revoke(a site.Amendment) error {
	id := a.DropSecret
	if a.LimitStation != nil {
		id = a.LimitStation.Station
	}
	st, known := m.stations[id]
	if !known {
		return fault.New(fault.NotFound, "Station not found")
	}
	if a.LimitStation != nil {
		st = a.LimitStation.Of(st)
	} else {
		st.Secret.Sum = [32]byte{}
	}
	m.stations[id] = st
	return nil
}

func (m *memory) SaveStates(ctx context.Context, states []station.SavedState) error {
	m.mu.Lock()
	saving := m.saving
	m.saving = nil
	m.mu.Unlock()
	if saving != nil {
		saving()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.saves = append(m.saves, states)
	if m.fail != nil {
		return m.fail
	}
	for _, s := range states {
		if st, known := m.stations[s.Station]; known && st.Enrolled.Equal(s.Enrolled) {
			m.states[s.Station] = s
		}
	}
	return nil
}

func (m *memory) Battery(_ context.Context, id site.StationID) ([]station.BatteryPoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var points []station.BatteryPoint
	for _, batch := range m.saves {
		for _, s := range batch {
			if s.Station == id && s.Point.Volts != 0 {
				points = append(points, s.Point)
			}
		}
	}
	return points, m.fail
}

func (m *memory) AppendLater(r site.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.later = append(m.later, r)
}

func (m *memory) write(ctx context.Context, r site.Record, change func() error) error {
	m.mu.Lock()
	within := m.within
	m.mu.Unlock()
	if within != nil {
		within(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("a change without a deadline")
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.Timeout, "The storage is slow", ctx.Err())
	}
	if m.fail != nil {
		return m.fail
	}
	if err := change(); err != nil {
		return err
	}
	m.admin = append(m.admin, r)
	return nil
}

func (m *memory) hasToken(st site.Station) bool {
	for _, other := range m.stations {
		if other.ID != st.ID && other.Token == st.Token {
			return true
		}
	}
	return false
}

func (m *memory) failWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memory) hook(within func(context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.within = within
}

func (m *memory) hookSaving(saving func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saving = saving
}

// journalled returns the records of stations of those kinds, or of all.
func (m *memory) journalled(kinds ...site.Kind) []site.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []site.Record
	for _, r := range m.later {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			out = append(out, r)
		}
	}
	return out
}

func (m *memory) lastAdmin(t *testing.T) site.Record {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.admin) == 0 {
		t.Fatal("no record of an administrator's change")
	}
	return m.admin[len(m.admin)-1]
}

func (m *memory) writeCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// saved takes the batches that were saved so far, each sorted by station.
func (m *memory) saved() [][]station.SavedState {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.saves
	m.saves = nil
	for _, batch := range out {
		slices.SortFunc(batch, func(a, b station.SavedState) int { return cmp.Compare(a.Station, b.Station) })
	}
	return out
}

func (m *memory) state(id site.StationID) station.SavedState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[id]
}

// fixture is a service over memory with a clock that the test moves.
type fixture struct {
	*station.Service
	changes     *amend.Service
	health      *health.Registry
	store       *memory
	clock       *handClock
	connections atomic.Uint64
}

// battery is a report of a battery's voltage.
func battery(volts float64) *station.Report { return &station.Report{BatteryVoltage: &volts} }

// Report applies a report as package stationlink reads it.
func (f *fixture) Report(id site.StationID, payload []byte) error {
	r, terms := stationlink.ParseReport(payload)
	r.ByResult = terms.Results
	return f.Service.Report(id, r)
}

// next numbers a new connection.
func (f *fixture) next() site.ConnectionID { return site.ConnectionID(f.connections.Add(1)) }

// last is the number of the newest connection.
func (f *fixture) last() site.ConnectionID { return site.ConnectionID(f.connections.Load()) }

// setup returns a service with the stations 1 to n, each with two locks; station 1
// has secret and token.
func setup(tb testing.TB, n int) *fixture {
	tb.Helper()
	f := &fixture{store: newMemory(), clock: &handClock{now: epoch()}}
	c := config(f.store, f.clock)
	f.changes = c.Changes
	f.Service = open(tb, c)
	for id := site.StationID(1); int(id) <= n; id++ {
		r := station.EnrolRequest{ID: id, Locks: 2}
		if id == 1 {
			r.Name, r.Secret, r.Token = "North entrance", secret, token
		}
		if _, err := f.Enrol(tb.Context(), admin(), r); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

// pass lets that much time pass, by the gateway's clock too; in a bubble of synctest.
func (f *fixture) pass(d time.Duration) {
	f.clock.advance(d)
	time.Sleep(d)
}

func config(m *memory, c site.Clock) station.Config {
	return station.Config{
		Store: m, Changes: amend.New(m), Journal: m, Clock: c, BatteryLow: 3.5, FlushEvery: 9 * time.Minute,
		Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{}, Metrics: metric.New(),
	}
}

func open(tb testing.TB, c station.Config) *station.Service {
	tb.Helper()
	s, err := station.New(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// connect authenticates and connects station 1.
func (f *fixture) connect(tb testing.TB) {
	tb.Helper()
	generation, ok := f.Authenticate(1, secret)
	if !ok {
		tb.Fatal("the right secret was refused")
	}
	if err := f.Connected(1, f.next(), generation, "192.0.2.7:51000"); err != nil {
		tb.Fatal(err)
	}
}

// state returns the state of a station that must exist.
func (f *fixture) state(tb testing.TB, id site.StationID) site.StationState {
	tb.Helper()
	st, ok := f.State(id)
	if !ok {
		tb.Fatalf("station %s has no state", id)
	}
	return st
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got error %v of kind %v, want kind %v", err, fault.KindOf(err), kind)
	}
}

// patch changes everything that a patch can.
func patch(name string, locks int, mode site.HomeAssistantMode) station.Patch {
	return station.Patch{Name: &name, Locks: &locks, HomeAssistant: &mode}
}
