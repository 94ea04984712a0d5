package adminapi_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/webtest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
	"gatehouse/internal/web/kit"
)

func TestMain(m *testing.M) {
	os.Exit(await.Run(m))
}

const (
	chief    = "chief@example.test"
	porter   = "porter@example.test"
	password = site.Secret("correct horse battery")
)

// house is the API over the real access and station services, whose store only
// counts, and over fakes of the rest.
type house struct {
	t           testing.TB
	kit         *kit.Kit
	api         *adminapi.API
	access      *access.Service
	stations    *station.Service
	store       *store
	unlocker    *unlocker
	journal     *book
	provisioner *provisioner
	parcel      *parcel
	takers      []site.Actor // of backups
	restarters  []site.Actor
	restarts    error // why not
	timekeeper  timekeeper
	updates     *updater
	uploads     *shelf
	metrics     *metric.Registry
	log         *syncBuffer
}

func open(t testing.TB) *house {
	t.Helper()
	h := &house{
		t: t, store: &store{}, unlocker: &unlocker{}, journal: newBook(), provisioner: &provisioner{result: sitefile.NewResult()},
		parcel:  &parcel{text: "all that makes a gateway"},
		updates: newUpdater(), uploads: &shelf{},
		metrics: metric.New(), log: &syncBuffer{},
	}
	log := slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	changes := amend.New(h.store)
	h.access, err = access.New(t.Context(), access.Config{
		Store: h.store, Changes: changes, Clock: clock{}, Key: make([]byte, 32), Issuer: "gateway", Logger: log, Metrics: h.metrics,
		Params: access.Params{MemoryKiB: 8, Time: 1, Threads: 1}, AccountFailures: 10, AddressFailures: 30,
	})
	h.must(err)
	h.stations, err = station.New(t.Context(), station.Config{
		FlushEvery: time.Minute, Store: stationStore{h.store}, Changes: changes, Journal: h.store, Clock: clock{}, Logger: log, Health: &health.Registry{}, Metrics: h.metrics,
	})
	h.must(err)
	h.kit = kit.New(kit.Config{Metrics: h.metrics, Logger: log})
	h.api = adminapi.New(h.config(log))
	return h
}

// handler returns the API as it is behind a door.
func (h *house) handler(door adminapi.Door) http.Handler {
	return h.kit.Handler(door == adminapi.Web, h.api.Routes(door))
}

func (h *house) config(log *slog.Logger) adminapi.Config {
	return adminapi.Config{
		Gateway: "gateway",
		Access:  h.access, Stations: h.stations, Subscribed: func(site.StationID) bool { return true }, Unlock: h.unlocker.Unlock, Journal: h.journal,
		Apply: h.provisioner.Apply, Timekeeper: &h.timekeeper, Clock: clock{}, Status: statusOf, Database: databaseOf, Backup: h.takeBackup,
		SealedBackup: h.takeSealedBackup, Restart: h.restart, Updates: h.updates, Uploads: h.uploads,
		Zone: func() *time.Location { return time.UTC }, Logger: log,
	}
}

func databaseOf(context.Context) (adminapi.Database, error) {
	return adminapi.Database{Size: 65536, Log: 4152, Schema: 5, First: 1, Last: 7}, nil
}

func statusOf() adminapi.Status {
	start := site.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return adminapi.Status{
		Version: "1.0", GatewayID: "gateway", Name: "gate", Boot: "boot", Started: start, Ready: true,
		Conditions: []health.Condition{{Code: health.PlainHTTP, Severity: health.Warning, Summary: "s", Advice: "a", Since: start}},
		Clock:      adminapi.ClockStatus{Now: start, Trusted: true},
		Listeners:  []adminapi.Listener{{Name: "http", Address: "127.0.0.1:8080"}},
		Addresses:  []netip.Addr{netip.MustParseAddr("192.168.1.20")},
		Stations:   adminapi.StationCount{Enrolled: 2, Online: 1}, Accounts: 3, Sessions: 4,
		Journal: adminapi.JournalSize{Records: 5, Bytes: 600, First: 1, Last: 5}, Data: "/data",
		Certificate: &adminapi.CertificateStatus{Names: []string{"gate"}, NotAfter: start, Fingerprint: "EF:01", AuthorityFingerprint: "AB:CD", Own: true},
		Memory:      adminapi.MemoryStatus{Used: 7, Limit: 8}, TimeZone: "Europe/Berlin",
		Cloud: &adminapi.CloudStatus{
			URL: "tls://mqtt.example.test", Since: start, Error: "e", Advice: "a", NextTry: start, Acknowledgement: "application",
			Delivered: 3, Waiting: 2, Keys: []string{"k"},
		},
		Update: site.UpdateStatus{Advice: "Run apt."},
	}
}

func (h *house) report(id site.StationID, payload []byte) {
	h.t.Helper()
	r, _ := stationlink.ParseReport(payload)
	h.must(h.stations.Report(id, r))
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// answer is what came back of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request through the socket's door, as root.
func (h *house) do(method, path, body string) answer {
	h.t.Helper()
	r := httptest.NewRequestWithContext(adminapi.PeerContext(h.t.Context(), 0, 0, 1, adminapi.NoGroup), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return h.send(adminapi.Socket, r)
}

func (h *house) send(door adminapi.Door, r *http.Request) answer {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.handler(door).ServeHTTP(w, r)
	webtest.Describe(h.t, "openapi.json").Check(h.t, r, w.Code, w.Header(), w.Body.String())
	return answer{w.Code, w.Header(), w.Body.String()}
}

// want compares an answer's status and body, the latter without its last line end.
func (h *house) want(got answer, status int, body string) {
	h.t.Helper()
	if got.status != status || strings.TrimSuffix(got.body, "\n") != body {
		h.t.Errorf("got %d %s\nwant %d %s", got.status, got.body, status, body)
	}
}

// token logs an account in.
func (h *house) token(email string) string {
	h.t.Helper()
	tokens, err := h.access.Login(h.t.Context(), email, password, access.Client{Remote: netip.MustParseAddr("192.0.2.1"), Name: "curl"})
	h.must(err)
	return tokens.Access.Reveal()
}

func (h *house) addAccount(email string, admin bool) site.Account {
	h.t.Helper()
	a, err := h.access.AddAccount(h.t.Context(), site.Actor{Origin: site.Admin}, email, password, admin)
	h.must(err)
	return a
}

func (h *house) addStation(id site.StationID) {
	h.t.Helper()
	_, err := h.stations.Enrol(h.t.Context(), site.Actor{Origin: site.Admin}, station.EnrolRequest{ID: id, Name: "North", Locks: 2})
	h.must(err)
}

// serve serves the API on a real socket and returns a client of it.
func (h *house) serve() *client.Client {
	h.t.Helper()
	return h.serveWith(h.api.NewServer(h.kit))
}

func (h *house) serveWith(server *http.Server) *client.Client {
	h.t.Helper()
	path := filepath.Join(shortDir(h.t), "admin.sock")
	l, err := adminapi.Listen(path, "")
	h.must(err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	c := client.New(path)
	h.t.Cleanup(func() {
		c.Close()
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			h.t.Errorf("the server ended: %v", err)
		}
	})
	return c
}

// shortDir returns a folder whose path leaves room for the name of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gh") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }
func (clock) Trusted() bool  { return true }

// syncBuffer is a log that several may write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// unlocker opens every lock of station 1042.
type unlocker struct {
	mu   sync.Mutex
	seen []unlock.Request
	err  error
}

func (u *unlocker) Unlock(_ context.Context, r unlock.Request) (unlock.Answer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, r)
	outcome := site.Done
	if r.Station != 1042 {
		outcome = site.StationGone
	}
	return unlock.Answer{Command: "0190c8a0-0000-7000-8000-000000000000", Station: r.Station, Lock: r.Lock, Outcome: outcome}, u.err
}

// provisioner returns what the test has set.
type provisioner struct {
	by      site.Actor
	site    sitefile.Site
	options sitefile.Options
	result  sitefile.Result
	err     error
}

func (p *provisioner) Apply(_ context.Context, by site.Actor, s sitefile.Site, o sitefile.Options) (sitefile.Result, error) {
	p.by, p.site, p.options = by, s, o
	return p.result, cmp.Or(p.err, wrong(s))
}

func wrong(s sitefile.Site) error {
	if err := s.Check(); err != nil {
		return fault.New(fault.Invalid, err.Error())
	}
	return nil
}

// book is a journal in memory.
type book struct {
	mu      sync.Mutex
	records []site.Record
	queries []journal.Query
	fail    func(q journal.Query) error
	wakes   map[chan struct{}]struct{}
	verify  func(context.Context) (journal.Verdict, error)
}

func newBook() *book { return &book{wakes: map[chan struct{}]struct{}{}} }

// write adds n records about a station.
func (b *book) write(n int, id site.StationID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range n {
		seq := uint64(len(b.records) + 1)
		at := time.Date(2026, 1, 1, 0, 0, int(seq), 0, time.UTC) //nolint:gosec // small
		b.records = append(b.records, site.Record{Seq: seq, Time: site.At(at), Kind: site.KindUnlock, Facts: site.Facts{Station: id}})
	}
	for wake := range b.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (b *book) Read(_ context.Context, q journal.Query) (out []site.Record, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queries = append(b.queries, q)
	if b.fail != nil {
		if err := b.fail(q); err != nil {
			return nil, err
		}
	}
	for _, r := range b.records {
		within := !r.Time.Before(q.Since) && (q.Until.IsZero() || r.Time.Before(q.Until))
		selected := (q.Station == 0 || r.Station == q.Station) && q.Selects(&r)
		if r.Seq > q.AfterSeq && (q.BeforeSeq == 0 || r.Seq < q.BeforeSeq) && within && selected {
			out = append(out, r)
		}
	}
	if len(out) > q.Limit && q.Newest {
		return out[len(out)-q.Limit:], nil
	}
	return out[:min(len(out), q.Limit)], nil
}

func (b *book) Latest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(len(b.records))
}

func (b *book) Subscribe() (wake <-chan struct{}, cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := make(chan struct{}, 1)
	b.wakes[ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.wakes, ch)
	}
}

func (b *book) followers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wakes)
}

func (b *book) Testify(_ context.Context, witnesses []journal.Witness) (all []journal.Testimony, err error) {
	for _, w := range witnesses {
		all = append(all, journal.Testimony{Witness: w, Statement: journal.Agrees})
	}
	return all, nil
}

func (b *book) Verify(ctx context.Context) (journal.Verdict, error) {
	if b.verify != nil {
		return b.verify(ctx)
	}
	return journal.Verdict{Records: 7, First: 1, Last: 7}, nil
}

// store takes everything and keeps the records.
type store struct {
	access.Store // nil: what is not here must not be called
	mu           sync.Mutex
	records      []site.Record
	failing      error
}

func (s *store) note(r site.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	return s.failing
}

func (s *store) Amend(_ context.Context, _ func() error, all []site.Amendment) error {
	for _, a := range all {
		_ = s.note(a.Record)
	}
	return s.failing
}

func (s *store) AppendRecord(_ context.Context, r site.Record) error { return s.note(r) }

func (s *store) AppendLater(r site.Record) { _ = s.note(r) }

func (s *store) LoadAccess(context.Context) (site.Access, error) { return site.Access{}, nil }

func (s *store) AddSession(_ context.Context, _ site.Session, _ [32]byte, r site.Record) error {
	return s.note(r)
}

type stationStore struct{ *store }

func (s stationStore) LoadStations(context.Context) ([]site.Station, []station.SavedState, error) {
	return nil, nil, nil
}

func (s stationStore) SaveStates(context.Context, []station.SavedState) error { return nil }

func (s stationStore) Battery(context.Context, site.StationID) ([]station.BatteryPoint, error) {
	return nil, nil
}
