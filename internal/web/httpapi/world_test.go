package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"gatehouse/internal/health"
	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/webtest"
	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
)

// world is an API over fakes, served on a port of its own.
type world struct {
	t        testing.TB
	access   *fakeAccess
	stations *fakeStations
	unlocker *fakeUnlocker
	health   *health.Registry
	metrics  *metric.Registry
	logs     *logBuffer
	setup    *fakeSetup
	web      *kit.Kit
	api      *httpapi.API
	spec     *webtest.Description // of /v1
	local    *webtest.Description // of /local/v1

	pool    *limit.Pool // of the connections
	base    string      // http://127.0.0.1:port
	addr    string
	client  *http.Client
	stop    context.CancelFunc // ends the server's base context
	stopped chan struct{}
}

// logBuffer takes log lines from several goroutines.
type logBuffer struct {
	mu   sync.Mutex // mu guards text
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newAPI returns an API over fakes without a server.
func newAPI(t testing.TB, level slog.Level) *world {
	t.Helper()
	w := &world{
		t: t, access: newFakeAccess(), stations: newFakeStations(),
		health: &health.Registry{}, metrics: metric.New(), logs: &logBuffer{}, setup: &fakeSetup{},
	}
	w.unlocker = &fakeUnlocker{access: w.access, stations: w.stations, outcome: site.Acknowledged}
	names := func() []string { return []string{"Gate.local", "*.doors.example.test"} }
	w.web = kit.New(kit.Config{Metrics: w.metrics, Names: names, Logger: slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: level}))})
	w.api = httpapi.New(httpapi.Config{
		Access: w.access, Stations: w.stations, Unlocker: w.unlocker, Clock: clock{}, Health: w.health, Metrics: w.metrics, Gateway: gatewayID, Boot: boot, Setup: w.setup,
		Name: "gate",
	})
	return w
}

// newWorld serves an API on plain HTTP, all options on.
func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, allOptions(), nil, unchanged)
}

// newWorldWith serves it with further routes, and a server that change has changed.
func newWorldWith(t testing.TB, options httpapi.Options, further []kit.Route, change func(*http.Server)) *world {
	t.Helper()
	w := newAPI(t, slog.LevelDebug)
	w.spec, w.local = webtest.Describe(t, "openapi.json"), webtest.Describe(t, "local.json")
	w.serve(w.handler(options, further...), change)
	return w
}

// handler returns the handler of a plain listener.
func (w *world) handler(options httpapi.Options, further ...kit.Route) http.Handler {
	return w.web.Handler(false, w.api.Routes(options), further)
}

// requests returns how many requests are in flight.
func (w *world) requests() int {
	w.t.Helper()
	var text bytes.Buffer
	w.metrics.Write(&text)
	for line := range strings.Lines(text.String()) {
		if n, ok := strings.CutPrefix(line, "gatehouse_http_requests_in_flight "); ok {
			count, err := strconv.Atoi(strings.TrimSpace(n))
			if err != nil {
				w.t.Fatal(err)
			}
			return count
		}
	}
	w.t.Fatal("no such gauge")
	return 0
}

// serve starts a server and has the test stop it.
func (w *world) serve(handler http.Handler, change func(*http.Server)) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.serveOn(listener, handler, func(s *http.Server) {
		// Virtual time is for tests of these bounds.
		s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = await.Patience, await.Patience, await.Patience
		change(s)
	})
}

// serveOn is serve on that listener.
func (w *world) serveOn(listener net.Listener, handler http.Handler, change func(*http.Server)) {
	w.t.Helper()
	base, cancel := context.WithCancel(context.Background())
	changed := &http.Server{} //nolint:gosec // it serves nothing
	change(changed)
	w.pool = usualPool()
	service := w.web.NewService(handler, listener, w.pool, changed.TLSConfig)
	service.Server.BaseContext = func(net.Listener) context.Context { return base }
	change(service.Server)
	w.stop, w.stopped = cancel, make(chan struct{})
	w.addr = listener.Addr().String()
	w.base = "http://" + w.addr
	go func() {
		defer close(w.stopped)
		_ = service.Serve()
	}()
	transport := &http.Transport{DisableCompression: true}
	w.client = &http.Client{Transport: transport, Timeout: await.Patience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	w.t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		_ = service.Server.Close()
		<-w.stopped
	})
}

// request is one request of a test; JSON bodies get their content type.
type request struct {
	method string
	path   string
	bearer string
	body   string
	header map[string]string
}

// response is what came back.
type response struct {
	status int
	header http.Header
	body   string
}

// do sends a request and holds the response to what every response must be, and to
// the description of /v1.
func (w *world) do(r request) response {
	w.t.Helper()
	req := w.build(r)
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: reading the body: %v", r.method, r.path, err)
	}
	got := response{resp.StatusCode, resp.Header, string(body)}
	checkAny(w.t, req.Method, got)
	if strings.HasPrefix(r.path, "/v1/") {
		w.spec.Check(w.t, req, got.status, got.header, got.body)
	}
	if strings.HasPrefix(r.path, "/local/v1/") {
		w.local.Check(w.t, req, got.status, got.header, got.body)
	}
	return got
}

func (w *world) build(r request) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), r.method, w.base+r.path, strings.NewReader(r.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+r.bearer)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	return req
}

// checkAny holds a response to what every response must be.
func checkAny(t testing.TB, method string, got response) {
	t.Helper()
	if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v lack no-store or nosniff", got.header)
	}
	if got.status == http.StatusUnauthorized && got.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("a 401 without WWW-Authenticate: Bearer: %v", got.header)
	}
	if got.status >= http.StatusBadRequest && method != http.MethodHead {
		checkErrorBody(t, got.header.Get("Content-Type"), got.body)
	}
}

// checkErrorBody holds an error body to exactly one field, message.
func checkErrorBody(t testing.TB, contentType, body string) {
	t.Helper()
	var fields map[string]string
	err := json.Unmarshal([]byte(body), &fields)
	if err != nil || len(fields) != 1 || fields["message"] == "" || contentType != "application/json" {
		t.Errorf("error body %s %q, want application/json with exactly one field, message", contentType, body)
	}
}

// want compares status and exact body; every JSON body ends with a newline.
func (got response) want(t testing.TB, status int, body string) {
	t.Helper()
	if body != "" {
		body += "\n"
	}
	if got.status != status || got.body != body {
		t.Errorf("got %d %s\nwant %d %s", got.status, got.body, status, body)
	}
}

func message(text string) string { return `{"message":"` + text + `"}` }

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// serveOnce has the handler answer without a network.
func (w *world) serveOnce(ctx context.Context, r request) response {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.handler(httpapi.Options{}).ServeHTTP(rec, w.build(r).WithContext(ctx))
	return response{rec.Code, rec.Header(), rec.Body.String()}
}

// pipes is a listener for in-memory connections, for tests in a bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects to the listener.
func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p <- far
	return near
}

// inBubble serves an API within the bounds of the product, in virtual time.
func inBubble(t *testing.T, see func(w *world, listener pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, listener := newAPI(t, slog.LevelDebug), make(pipes)
		w.serveOn(listener, w.handler(allOptions()), unchanged)
		w.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return listener.dial(), nil }
		see(w, listener)
	})
}

func allOptions() httpapi.Options { return httpapi.Options{Metrics: true} }

// usualPool bounds connections as usual.
func usualPool() *limit.Pool {
	return limit.NewPool(limit.Limits{Total: 512 + kit.MaxStreams, Resting: 512, PerAddress: 256})
}

// unchanged is a server as it is.
func unchanged(*http.Server) {}
