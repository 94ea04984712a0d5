package provision_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gatehouse/internal/access"
	"gatehouse/internal/metric"
	"gatehouse/internal/provision"
	"gatehouse/internal/site"
	"gatehouse/internal/sitefile"
	"gatehouse/internal/station"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a Service over the real access and station services, which write into
// a store that only counts.
type house struct {
	*provision.Service
	t        testing.TB
	accounts *access.Service
	stations *stationDesk
	zone     *zone
	store    *countingStore
}

func open(t testing.TB) *house {
	t.Helper()
	store := &countingStore{}
	log := slog.New(slog.DiscardHandler)
	accounts, err := access.New(t.Context(), access.Config{
		Store: store, Clock: clock{}, Key: make([]byte, 32), Issuer: "gateway", Logger: log,
		Params: access.Params{MemoryKiB: 8, Time: 1, Threads: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	stations, err := station.New(t.Context(), station.Config{
		Store: stationStore{store}, Journal: store, Clock: clock{}, Logger: log, Metrics: metric.New(), Boot: "boot",
	})
	if err != nil {
		t.Fatal(err)
	}
	stations.OnRevoked(func(id site.StationID) { // as the gateway does
		if _, enrolled := stations.Station(id); !enrolled {
			accounts.RemoveStationGrants(id)
		}
	})
	h := &house{t: t, accounts: accounts, stations: &stationDesk{Service: stations}, zone: &zone{name: "UTC"}, store: store}
	h.Service, err = provision.New(accounts, h.stations, h.zone)
	if err != nil {
		t.Fatal(err)
	}
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

// lines gives changes as "kind: what".
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

func (z *zone) SetTimeZone(_ context.Context, _ site.Actor, name string) (bool, error) {
	changed := z.name != name
	z.name = name
	return changed, nil
}

// stationDesk is the real service, where a test may step in before an enrolment.
type stationDesk struct {
	*station.Service
	enrolling func(ctx context.Context, id site.StationID) error
}

func (d *stationDesk) Enrol(ctx context.Context, by site.Actor, r station.EnrolRequest) (station.Enrolled, error) {
	if d.enrolling != nil {
		if err := d.enrolling(ctx, r.ID); err != nil {
			return station.Enrolled{}, err
		}
	}
	return d.Service.Enrol(ctx, by, r)
}

// disk takes time for each flush; whoever comes meanwhile shares the next one.
type disk struct {
	flush time.Duration

	mu         sync.Mutex    // mu guards what follows
	last, next chan struct{} // each closed when that flush has ended; next is nil when none is to come
}

// write returns when a flush has ended that began after the call.
func (d *disk) write() {
	d.mu.Lock()
	if d.next == nil {
		d.next = make(chan struct{})
		go d.run(d.last, d.next)
		d.last = d.next
	}
	done := d.next
	d.mu.Unlock()
	<-done
}

func (d *disk) run(before, done chan struct{}) {
	if before != nil {
		<-before
	}
	d.mu.Lock()
	d.next = nil
	d.mu.Unlock()
	time.Sleep(d.flush) // in the bubble of the one test that sets it
	close(done)
}

// countingStore takes everything and keeps the records.
type countingStore struct {
	access.Store       // nil: what is not here must not be called
	disk         *disk // nil: takes no time
	mu           sync.Mutex
	records      []site.Record
}

func (s *countingStore) note(r site.Record) error {
	if s.disk != nil {
		s.disk.write()
	}
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

func (s *countingStore) LoginAddresses(context.Context) ([]site.LoginAddress, error) { return nil, nil }

func (s *countingStore) LoadAccess(context.Context) ([]site.Account, []site.Session, []site.Grant, error) {
	return nil, nil, nil, nil
}

func (s *countingStore) AddAccount(_ context.Context, _ site.Account, r site.Record) error {
	return s.note(r)
}

func (s *countingStore) UpdateAccount(_ context.Context, _ site.Account, r site.Record) error {
	return s.note(r)
}

func (s *countingStore) RemoveAccount(_ context.Context, _ site.AccountID, r site.Record) error {
	return s.note(r)
}

func (s *countingStore) PutGrant(_ context.Context, _ site.Grant, r site.Record) error {
	return s.note(r)
}

func (s *countingStore) RemoveGrant(_ context.Context, _ site.AccountID, _ site.StationID, r site.Record) error {
	return s.note(r)
}

type stationStore struct{ *countingStore }

func (s stationStore) LoadStations(context.Context) ([]site.Station, []station.SavedState, error) {
	return nil, nil, nil
}

func (s stationStore) AddStation(_ context.Context, _ site.Station, r site.Record) error {
	return s.note(r)
}

func (s stationStore) UpdateStation(_ context.Context, _ site.Station, r site.Record) error {
	return s.note(r)
}

func (s stationStore) RemoveStation(_ context.Context, _ site.StationID, r site.Record) error {
	return s.note(r)
}

func (s stationStore) SaveStates(context.Context, []station.SavedState) error { return nil }
