package provision_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/setup/provision"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// house is a Service over the real access and station services, which write into
// a store that only counts.
type house struct {
	*provision.Service
	t        testing.TB
	accounts *access.Service
	stations *station.Service
	zone     *zone
	store    *countingStore
	changes  *amend.Service
}

func open(t testing.TB) *house {
	t.Helper()
	store := &countingStore{}
	log := slog.New(slog.DiscardHandler)
	changes := amend.New(store)
	accounts, err := access.New(t.Context(), access.Config{
		Store: store, Changes: changes, Clock: clock{}, Key: make([]byte, 32), Issuer: "gateway", Logger: log, Metrics: metric.New(),
		Params: access.Params{MemoryKiB: 8, Time: 1, Threads: 1}, AccountFailures: 10, AddressFailures: 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	stations, err := station.New(t.Context(), station.Config{
		FlushEvery: time.Minute, Store: stationStore{store}, Changes: changes, Journal: store, Clock: clock{}, Logger: log, Health: &health.Registry{}, Metrics: metric.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, accounts: accounts, stations: stations, zone: &zone{name: "UTC"}, store: store, changes: changes}
	changes.OnStored(h.zone.adopt)
	h.Service = provision.New(accounts, h.stations, h.zone, changes)
	return h
}

func admin() site.Actor { return site.Actor{Origin: site.Admin, Name: "uid 1000 (ada)"} }

// apply applies a TOML text, which must succeed.
func (h *house) apply(text string, o sitefile.Options) sitefile.Result {
	h.t.Helper()
	result, err := h.try(text, o)
	if err != nil {
		h.t.Fatalf("applying: %v", err)
	}
	return result
}

func (h *house) try(text string, o sitefile.Options) (sitefile.Result, error) {
	h.t.Helper()
	s, err := sitefile.Parse("test", []byte(text))
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Apply(h.t.Context(), admin(), s, o)
}

// lines returns changes as "kind: what".
func lines(r sitefile.Result) []string {
	var out []string
	for _, c := range r.Changes {
		out = append(out, c.Kind+": "+c.What)
	}
	return out
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }
func (clock) Trusted() bool  { return true }

type zone struct{ name string }

func (z *zone) TimeZone() string { return z.name }

func (z *zone) Draft(_ site.Actor, name string) (site.Amendment, error) {
	return site.Amendment{TimeZone: name, Record: site.Record{Kind: site.KindTimeZone, Facts: site.Facts{Detail: name}}}, nil
}

func (z *zone) adopt(amendments []site.Amendment) {
	for _, a := range amendments {
		if a.TimeZone != "" {
			z.name = a.TimeZone
		}
	}
}

// countingStore takes everything and keeps the records.
type countingStore struct {
	access.Store // nil: what is not here must not be called
	mu           sync.Mutex
	records      []site.Record
	amends       int
	amending     func(ctx context.Context) error // called before amendments are taken; nil: they are
}

func (s *countingStore) Amend(ctx context.Context, _ func() error, all []site.Amendment) error {
	if s.amending != nil {
		if err := s.amending(ctx); err != nil {
			return err
		}
	}
	for _, a := range all {
		_ = s.note(a.Record)
	}
	s.amends++
	return nil
}

func (s *countingStore) note(r site.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	return nil
}

func (s *countingStore) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

func (s *countingStore) AppendLater(r site.Record) { _ = s.note(r) }

func (s *countingStore) LoadAccess(context.Context) (site.Access, error) { return site.Access{}, nil }

type stationStore struct{ *countingStore }

func (s stationStore) LoadStations(context.Context) ([]site.Station, []station.SavedState, error) {
	return nil, nil, nil
}

func (s stationStore) SaveStates(context.Context, []station.SavedState) error { return nil }

func (s stationStore) Battery(context.Context, site.StationID) ([]station.BatteryPoint, error) {
	return nil, nil
}
