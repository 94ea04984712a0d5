package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/health"
)

// today is when the tests begin.
var today = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// house is a machine with a gateway's certificate.
type house struct {
	testing.TB
	cfg        certificate.Config
	conditions *health.Registry
	log        *log

	mu        sync.Mutex // guards what follows
	time      time.Time
	since     time.Time // time has passed since then, in a bubble; zero: it stands still
	trusted   bool
	addresses []netip.Addr
}

// newHouse returns a machine named gate at 192.168.1.20 whose clock is right, and stands
// still.
func newHouse(t testing.TB) *house {
	h := &house{
		TB: t, conditions: &health.Registry{}, log: &log{},
		time: today, trusted: true, addresses: parse("192.168.1.20"),
	}
	h.cfg = certificate.Config{
		Folder: filepath.Join(t.TempDir(), "tls"), Name: "North house", Hostname: "gate",
		GatewayID: "1a2b3c4d-0000-4000-8000-000000000000", Clock: h, Addresses: h.found, Published: func() string { return "" },
		System: func() (time.Time, bool) { return h.Now(), h.Trusted() },
		Logger: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Health: h.conditions,
	}
	return h
}

// log keeps what is logged; safe for concurrent use.
type log struct {
	mu   sync.Mutex // mu guards text
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func parse(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// Now and Trusted make the house a site.Clock.
func (h *house) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return h.time
	}
	return h.time.Add(time.Since(h.since)) // in the bubble
}

func (h *house) Trusted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trusted
}

func (h *house) found() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.addresses)
}

// set sets the clock.
func (h *house) set(now time.Time, trusted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.time, h.trusted = now, trusted; !h.since.IsZero() {
		h.since = time.Now()
	}
}

// move changes the addresses of the machine.
func (h *house) move(addresses ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addresses = parse(addresses...)
}

// start starts a keeper, as a start of the process does.
func (h *house) start() *certificate.Keeper {
	h.Helper()
	k, err := certificate.New(h.cfg)
	if err != nil {
		h.Fatal(err)
	}
	return k
}

// run starts a keeper and runs it until the test ends; only in a bubble.
func (h *house) run() *certificate.Keeper {
	h.Helper()
	k := h.start()
	ctx, cancel := context.WithCancel(h.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := k.Run(ctx); err != nil {
			h.Error(err)
		}
	})
	h.Cleanup(func() { cancel(); done.Wait() })
	synctest.Wait()
	return k
}

// pass lets time pass until the next look, and d more.
func pass(d time.Duration) {
	time.Sleep(d + certificate.LookEvery)
	synctest.Wait()
}

// bubble runs a test in fake time.
func bubble(t *testing.T, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.since = time.Now()
		test(h)
	})
}

// codes checks which conditions stand, all of them warnings with advice.
func (h *house) codes(want ...health.Code) {
	h.Helper()
	var got []health.Code
	for _, c := range h.conditions.Conditions() {
		got = append(got, c.Code)
		if c.Severity != health.Warning || len(c.Summary) < 20 || len(c.Advice) < 20 {
			h.Errorf("condition %+v", c)
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.Errorf("conditions %v, want %v\n%s", got, want, h.log)
	}
}

// reports checks the words of the one condition.
func (h *house) reports(words ...string) {
	h.Helper()
	all := h.conditions.Conditions()
	if len(all) != 1 {
		h.Errorf("conditions %+v, want one", all)
		return
	}
	text := all[0].Summary + ": " + all[0].Advice
	for _, w := range words {
		if !strings.Contains(text, w) {
			h.Errorf("%q does not contain %q", text, w)
		}
	}
}

// path names a file of the folder.
func (h *house) path(name string) string { return filepath.Join(h.cfg.Folder, name) }

// files returns the content of every file in the folder.
func (h *house) files() map[string]string {
	h.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(h.cfg.Folder)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	for _, e := range entries {
		out[e.Name()] = read(h, h.path(e.Name()))
	}
	return out
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// client trusts a CA and has a clock.
type client struct {
	roots *x509.CertPool
	now   time.Time
}

// trusting returns a client that has the right time.
func (h *house) trusting(ca []byte) client {
	h.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		h.Fatalf("%q is no CA", ca)
	}
	return client{roots, h.Now()}
}

// connect makes a connection by TLS under a name, and returns both ends.
func (c client) connect(server *tls.Config, name string) (inside, outside *tls.Conn, err error) {
	a, b := net.Pipe()
	inside = tls.Server(a, server)
	outside = tls.Client(b, &tls.Config{RootCAs: c.roots, ServerName: name, Time: func() time.Time { return c.now }, InsecureSkipVerify: c.roots == nil})
	failed := make(chan error, 1)
	go func() { failed <- inside.Handshake() }()
	err = outside.Handshake()
	if err != nil {
		b.Close()
	}
	if other := <-failed; err == nil {
		err = other
	}
	return inside, outside, err
}

// accepts checks that the client accepts the gateway under each name.
func (h *house) accepts(k *certificate.Keeper, c client, names ...string) {
	h.Helper()
	for _, name := range names {
		if _, _, err := c.connect(k.TLS(), name); err != nil {
			h.Errorf("under %s: %v", name, err)
		}
	}
}

// refuses checks that the client does not.
func (h *house) refuses(k *certificate.Keeper, c client, names ...string) {
	h.Helper()
	for _, name := range names {
		if _, _, err := c.connect(k.TLS(), name); err == nil {
			h.Errorf("accepted under %s", name)
		}
	}
}
