package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func TestMain(m *testing.M) {
	os.Exit(await.Run(m))
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gh") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "admin.sock")
}

// gateway answers every call with handle.
func gateway(t *testing.T, handle http.HandlerFunc) *client.Client {
	t.Helper()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	c := client.New(path)
	t.Cleanup(func() {
		c.Close()
		_ = server.Close()
		<-ended
	})
	return c
}

// Each method sends what the API expects.
func TestClient_requests(t *testing.T) {
	var got string
	c := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
		if kind := r.Header.Get("Content-Type"); (kind == "application/json") != (len(body) > 0) {
			t.Errorf("%s has type %q", got, kind)
		}
		_, _ = io.WriteString(w, "{}")
	})
	ctx := t.Context()
	yes, locks := true, 3
	terms := adminapi.GrantTerms{From: site.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	for want, call := range map[string]func() error{
		"GET /admin/v1/status":   func() error { _, err := c.Status(ctx); return err },
		"GET /admin/v1/accounts": func() error { _, err := c.Accounts(ctx); return err },
		`POST /admin/v1/accounts {"email":"a@b.test","password":"<p>","admin":true}`: func() error {
			_, err := c.AddAccount(ctx, adminapi.NewAccount{Email: "a@b.test", Password: "<p>", Admin: true})
			return err
		},
		`PUT /admin/v1/accounts/a%2Fb@c.test/password {"password":"p"}`: func() error {
			_, err := c.SetPassword(ctx, "a/b@c.test", adminapi.NewPassword{Password: "p"})
			return err
		},
		`PUT /admin/v1/accounts/a@b.test/password {}`:      func() error { _, err := c.SetPassword(ctx, "a@b.test", adminapi.NewPassword{}); return err },
		`PATCH /admin/v1/accounts/a@b.test {"admin":true}`: func() error { _, err := c.SetAdmin(ctx, "a@b.test", yes); return err },
		"DELETE /admin/v1/accounts/a@b.test":               func() error { return c.RemoveAccount(ctx, "a@b.test") },
		"GET /admin/v1/accounts/a@b.test/sessions":         func() error { _, err := c.Sessions(ctx, "a@b.test"); return err },
		"POST /admin/v1/accounts/a@b.test/revoke":          func() error { _, err := c.Revoke(ctx, "a@b.test"); return err },
		"GET /admin/v1/stations":                           func() error { _, err := c.Stations(ctx); return err },
		"GET /admin/v1/stations/7":                         func() error { _, err := c.Station(ctx, 7); return err },
		`POST /admin/v1/stations {"stationId":7,"name":"N","locks":1}`: func() error {
			_, err := c.AddStation(ctx, adminapi.NewStation{StationID: 7, Name: "N", Locks: 1})
			return err
		},
		`PATCH /admin/v1/stations/7 {"locks":3}`: func() error {
			_, err := c.UpdateStation(ctx, 7, adminapi.StationPatch{Locks: &locks})
			return err
		},
		"POST /admin/v1/stations/7/rotate": func() error { _, err := c.Rotate(ctx, 7); return err },
		"DELETE /admin/v1/stations/7":      func() error { return c.RemoveStation(ctx, 7) },
		"GET /admin/v1/grants":             func() error { _, err := c.Grants(ctx); return err },
		`PUT /admin/v1/grants/a@b.test/7 {"from":"2026-01-01T00:00:00.000Z","until":null,"hours":""}`: func() error {
			_, err := c.Grant(ctx, "a@b.test", "7", terms)
			return err
		},
		"DELETE /admin/v1/grants/a@b.test/7":            func() error { return c.Ungrant(ctx, "a@b.test", "7") },
		"POST /admin/v1/stations/7/locks/lock-2/unlock": func() error { _, err := c.Unlock(ctx, 7, 2); return err },
		"GET /admin/v1/database":                        func() error { _, err := c.Database(ctx); return err },
		"GET /admin/v1/journal/verify":                  func() error { _, err := c.VerifyJournal(ctx); return err },
		`POST /admin/v1/apply {"site":{"stations":[{"id":7,"locks":2}]},"dryRun":true}`: func() error {
			_, err := c.Apply(ctx, sitefile.Site{Stations: []sitefile.Station{{ID: 7, Locks: 2}}}, sitefile.Options{DryRun: true})
			return err
		},
	} {
		if err := call(); err != nil || got != want {
			t.Errorf("sent %s\nwant %s (%v)", got, want, err)
		}
	}
}

func TestClient_journalQuery(t *testing.T) {
	var got string
	c := gateway(t, func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RequestURI() })
	at := time.Date(2026, 1, 1, 1, 0, 0, 5e6, time.FixedZone("", 3600))
	for want, q := range map[string]client.JournalQuery{
		"/admin/v1/journal":                  {},
		"/admin/v1/journal?before=12&tail=3": {Before: 12, Tail: 3},
		"/admin/v1/journal?after=5&follow=true&kind=login&kind=unlock&limit=9&since=2026-01-01T00%3A00%3A00.005Z&station=7&until=2026-01-01T00%3A00%3A00.005Z": {
			After: 5, Since: at, Until: at, Station: 7, Kinds: []site.Kind{"login", "unlock"}, Limit: 9, Follow: true,
		},
	} {
		for _, err := range c.Journal(t.Context(), q) {
			t.Errorf("got %v", err)
		}
		if got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

// A refusal comes back with its kind and sentence.
func TestClient_refusals(t *testing.T) {
	for status, kind := range map[int]fault.Kind{
		400: fault.Invalid, 401: fault.Unauthenticated, 403: fault.Forbidden, 404: fault.NotFound, 405: fault.Invalid, 409: fault.Conflict,
		413: fault.Invalid, 415: fault.Invalid, 429: fault.Throttled, 500: fault.Internal, 503: fault.Unavailable,
	} {
		c := gateway(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"message":"A sentence"}`)
		})
		err := c.RemoveStation(t.Context(), 7)
		if fault.KindOf(err) != kind || fault.Sentence(err) != "A sentence" || fault.RetryAfter(err) != 7*time.Second || err.Error() != "A sentence" {
			t.Errorf("%d becomes %v: %v, after %s", status, fault.KindOf(err), err, fault.RetryAfter(err))
		}
		for _, err := range c.Watch(t.Context()) {
			if !fault.Is(err, kind) {
				t.Errorf("a stream with %d ends with %v", status, err)
			}
		}
	}
}

func TestClient_refusalWithoutSentence(t *testing.T) {
	c := gateway(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := c.Status(t.Context()); fault.Sentence(err) != "the gateway answers 502 Bad Gateway" {
		t.Errorf("got %v", err)
	}
	if applied, err := c.Apply(t.Context(), sitefile.Site{}, sitefile.Options{}); err == nil || !reflect.DeepEqual(applied, adminapi.Applied{}) {
		t.Errorf("got %v", err)
	}
}

func TestClient_noGateway(t *testing.T) {
	missing := socketPath(t)
	stale := socketPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for _, path := range []string{missing, stale, filepath.Join(missing, "below")} {
		c := client.New(path)
		_, err := c.Status(t.Context())
		want := "the gateway does not answer on " + path + ": is `gatehouse serve` running? Start it, or name its socket with --socket"
		if !fault.Is(err, fault.Unavailable) || fault.Sentence(err) != want {
			t.Errorf("got %v: %v", fault.KindOf(err), err)
		}
		for _, err := range c.Watch(t.Context()) {
			if fault.Sentence(err) != want {
				t.Errorf("a stream ends with %v", err)
			}
		}
	}
}

// Root may open every socket, so the error of the system is made up here.
func TestClient_noPermission(t *testing.T) {
	denied := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	err := client.New("/run/gatehouse/admin.sock").Explain(t.Context(), denied)
	if !fault.Is(err, fault.Forbidden) || !strings.HasPrefix(fault.Sentence(err), "no permission to use /run/gatehouse/admin.sock: run this as root,") {
		t.Errorf("got %v: %v", fault.KindOf(err), err)
	}
}

func TestClient_timeout(t *testing.T) {
	err := client.New("/s").Explain(t.Context(), fmt.Errorf("calling: %w", context.DeadlineExceeded))
	if !fault.Is(err, fault.Timeout) || !strings.HasPrefix(fault.Sentence(err), "the gateway on /s took too long to answer") {
		t.Errorf("got %v: %v", fault.KindOf(err), err)
	}
}

// The end of the caller's context is the caller's own affair.
func TestClient_callerLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := gateway(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := c.Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range c.Watch(ctx) {
		t.Error("a stream with a dead context yields something")
	}
}

func TestClient_brokenAnswers(t *testing.T) {
	for name, body := range map[string]string{"cut off": `{"version":`, "no JSON": "<html>", "empty": ""} {
		c := gateway(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := c.Status(t.Context())
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "the connection to the gateway on ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClient_streams(t *testing.T) {
	const line = `{"seq":1,"kind":"login"}` + "\n"
	for name, c := range map[string]struct {
		body  string
		count int
		kind  fault.Kind
		words string
	}{
		"ends":        {line + "\n\n" + line, 2, fault.Unavailable, "the gateway has ended the stream: it is being stopped"},
		"says why":    {line + `{"message":"The storage fails"}` + "\n", 1, fault.Unavailable, "The storage fails"},
		"garbage":     {line + "nonsense\n", 1, fault.Unavailable, "broke"},
		"endless row": {line + strings.Repeat("x", 2<<20), 1, fault.Unavailable, "broke"},
	} {
		gw := gateway(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
		count := 0
		var last error
		for r, err := range gw.Journal(t.Context(), client.JournalQuery{Follow: true}) {
			if last = err; err == nil && r.Seq == 1 && r.Kind == site.KindLogin {
				count++
			}
		}
		if count != c.count || !fault.Is(last, c.kind) || !strings.Contains(fault.Sentence(last), c.words) {
			t.Errorf("%s: %d records, then %v", name, count, last)
		}
	}
}

// A stream that has an end ends without an error, and one may be left early.
func TestClient_streamsEnd(t *testing.T) {
	left := make(chan struct{}, 2)
	c := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"seq":1}`+"\n")
		if r.URL.Query().Get("follow") == "true" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			left <- struct{}{}
		}
	})
	for _, err := range c.Journal(t.Context(), client.JournalQuery{}) {
		if err != nil {
			t.Errorf("got %v", err)
		}
	}
	for _, err := range c.Journal(t.Context(), client.JournalQuery{Follow: true}) {
		if err != nil {
			t.Errorf("got %v", err)
		}
		break
	}
	<-left
	ctx, cancel := context.WithCancel(t.Context())
	for _, err := range c.Journal(ctx, client.JournalQuery{Follow: true}) {
		if err != nil {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	cancel()
	<-left
}
