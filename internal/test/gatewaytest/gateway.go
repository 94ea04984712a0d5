package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/config"
	"gatehouse/internal/gateway"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// The account that Start makes.
const (
	Email    = "porter@example.test"
	Password = "example-password-1"
)

// farTTL is the deadline of an unlock in tests that are not about it: the longest there is.
// A test in which a station does not answer sets its own.
const farTTL = time.Minute

// Gateway is one running gateway.
type Gateway struct {
	T      testing.TB
	Config config.Config
	HTTP   string // base URL
	MQTT   string // host:port
	HTTPS  string // base URL; "" without TLS
	MQTTS  string // host:port; "" without TLS
	Admin  *client.Client

	Running *gateway.Gateway

	stop    func() error
	stopped bool // whether the test has called Stop
	log     lockedBuffer
}

// Configure returns a configuration for a test: free ports on loopback, data in a
// temporary folder, cheap password hashes, no bounds on the unlocks of the one account,
// a minute for each of them.
func Configure(t testing.TB) config.Config {
	t.Helper()
	cfg := config.Defaults(nil)
	cfg.Data = filepath.Join(t.TempDir(), "data")
	cfg.HTTP.Listen, cfg.MQTT.Listen = []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}
	cfg.Login.HashMemory, cfg.Login.HashTime = 64*1024, 1
	cfg.Unlock.AccountRate, cfg.Unlock.AccountPending, cfg.Unlock.TTL = 0, 0, farTTL
	return cfg
}

// Start runs a gateway until the test ends, and makes the account.
func Start(t testing.TB, cfg config.Config) *Gateway {
	t.Helper()
	g := Run(t, cfg)
	g.AddAccount()
	return g
}

// AddAccount makes the account.
func (g *Gateway) AddAccount() {
	g.T.Helper()
	if _, err := g.Admin.AddAccount(g.T.Context(), adminapi.NewAccount{Email: Email, Password: Password}); err != nil {
		g.T.Fatal(err)
	}
}

// Run runs a gateway on data that may exist already.
func Run(t testing.TB, cfg config.Config) *Gateway {
	t.Helper()
	return RunAs(t, gateway.Config{Config: cfg})
}

// RunAs is Run with all that a gateway may be given; version and log are the test's.
func RunAs(t testing.TB, as gateway.Config) *Gateway {
	t.Helper()
	cfg := as.Config
	g := &Gateway{T: t, Config: cfg}
	as.Version = "test"
	as.Logger = slog.New(slog.NewTextHandler(&g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	running, err := gateway.New(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	g.Running = running
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- running.Run(ctx) }()
	g.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if !g.stopped {
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Log(g.Log())
		}
	})
	g.Admin = client.New(cfg.AdminSocket())
	g.Await("the gateway is ready", g.learn)
	return g
}

// learn reports whether the gateway is ready, and takes its addresses from its status.
func (g *Gateway) learn() bool {
	status, err := g.Admin.Status(g.T.Context())
	if err != nil || !status.Ready {
		return false
	}
	for _, l := range status.Listeners {
		switch l.Name {
		case "http":
			g.HTTP = "http://" + l.Address
		case "https":
			g.HTTPS = "https://" + l.Address
		case "mqtt":
			g.MQTT = l.Address
		case "mqtts":
			g.MQTTS = l.Address
		}
	}
	return true
}

// Stop stops the gateway and returns its error, which is the caller's to judge;
// stopping twice does no harm.
func (g *Gateway) Stop() error {
	g.stopped = true
	return g.stop()
}

// Log returns what the gateway has logged.
func (g *Gateway) Log() string { return g.log.String() }

// Enrol adds a station with two locks and grants it to the account.
func (g *Gateway) Enrol(id site.StationID) adminapi.IssuedStation {
	g.T.Helper()
	issued, err := g.Admin.AddStation(g.T.Context(), adminapi.NewStation{StationID: id, Locks: 2})
	if err != nil {
		g.T.Fatal(err)
	}
	if _, err := g.Admin.Grant(g.T.Context(), Email, id.String(), adminapi.GrantTerms{}); err != nil {
		g.T.Fatal(err)
	}
	return issued
}

// Login logs the account in.
func (g *Gateway) Login() (access, refresh string) {
	g.T.Helper()
	body, err := json.Marshal(map[string]string{"email": Email, "password": Password})
	if err != nil {
		g.T.Fatal(err)
	}
	answer := g.Do(http.MethodPost, "/v1/auth/login", "", body)
	var tokens struct{ AccessToken, RefreshToken string }
	if err := json.Unmarshal(answer.Body, &tokens); err != nil || answer.Status != http.StatusOK {
		g.T.Fatalf("login: %d %s", answer.Status, answer.Body)
	}
	return tokens.AccessToken, tokens.RefreshToken
}

// Answer is an HTTP answer, read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request; bearer and body may be empty.
func (g *Gateway) Do(method, path, bearer string, body []byte) Answer {
	g.T.Helper()
	req, err := http.NewRequestWithContext(await.Context(g.T), method, g.HTTP+path, bytes.NewReader(body))
	if err != nil {
		g.T.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.T.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		g.T.Fatal(err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}
}

// Unlock asks for lock-1 over /v1 and reports success.
func (g *Gateway) Unlock(bearer, stationToken string) bool {
	g.T.Helper()
	answer := g.Do(http.MethodPost, "/v1/stations/"+stationToken+"/locks/lock-1/unlock", bearer, nil)
	var result struct{ Success bool }
	if err := json.Unmarshal(answer.Body, &result); err != nil || answer.Status != http.StatusOK {
		g.T.Fatalf("unlock: %d %s", answer.Status, answer.Body)
	}
	return result.Success
}

// AwaitOnline waits until the gateway takes the station to be online, or offline.
func (g *Gateway) AwaitOnline(id site.StationID, online bool) {
	g.T.Helper()
	g.Await("station "+id.String()+" is on- or offline", func() bool {
		station, err := g.Admin.Station(g.T.Context(), id)
		return err == nil && (station.Status == site.Online) == online
	})
}

// Records returns the journal.
func (g *Gateway) Records() (records []site.Record) {
	g.T.Helper()
	for r, err := range g.Admin.Journal(g.T.Context(), client.JournalQuery{}) {
		if err != nil {
			g.T.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// AwaitRecord waits for a record.
func (g *Gateway) AwaitRecord(what string, match func(site.Record) bool) (found site.Record) {
	g.T.Helper()
	g.Await(what, func() bool {
		for _, r := range g.Records() {
			if match(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// Await is [await.Until] for the test of this gateway.
func (g *Gateway) Await(what string, ok func() bool) {
	g.T.Helper()
	await.Until(g.T, what, ok)
}

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
