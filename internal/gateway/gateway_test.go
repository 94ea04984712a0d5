package gateway_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/config"
	"gatehouse/internal/gateway"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

func newGateway(t *testing.T, cfg config.Config) (*gateway.Gateway, error) {
	t.Helper()
	return gateway.New(t.Context(), gateway.Config{Config: cfg, Version: "test", Logger: slog.New(slog.DiscardHandler)})
}

// Everything that was issued holds over a restart: tokens, secrets, grants, states
// and the journal's numbering.
func TestGateway_restart_keepsEverything(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.Start(t, cfg)
	issued := g.Enrol(1042)
	access, refresh := g.Login()
	station := g.Dial(issued.MQTT)
	station.Publish("report", []byte(`{"batteryVoltage":3.5,"locks":[{"lockId":"lock-2","status":"jammed"}]}`))
	g.AwaitRecord("the report", func(r site.Record) bool { return r.Kind == site.KindLockChanged })
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	before := g.Log()
	g = gatewaytest.Run(t, cfg)
	if a := g.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil); a.Status != http.StatusOK ||
		!strings.Contains(string(a.Body), `"batteryVoltage":3.5`) || !strings.Contains(string(a.Body), `"jammed"`) ||
		!strings.Contains(string(a.Body), `"offline"`) || strings.Contains(string(a.Body), `"lastConnection":null`) {
		t.Errorf("after the restart: %d %s", a.Status, a.Body)
	}
	if a := g.Do(http.MethodPost, "/v1/auth/refresh", "", refreshBody(refresh)); a.Status != http.StatusOK {
		t.Errorf("refreshing: %d %s", a.Status, a.Body)
	}
	station = g.Dial(issued.MQTT)
	go answerAll(station)
	g.AwaitOnline(1042, true)
	if !g.Unlock(access, issued.StationToken) {
		t.Error("the door does not open")
	}
	records := g.Records()
	var stopped, started int
	for i, r := range records {
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has seq %d", i+1, r.Seq)
		}
		switch r.Kind {
		case site.KindStarted:
			started++
		case site.KindStopped:
			stopped++
		}
	}
	if started != 2 || stopped != 1 {
		t.Errorf("%d starts and %d stops in the journal, want 2 and 1\n%s", started, stopped, before)
	}
}

// What a client was answered is in the journal by its next request; the data
// directory is its owner's alone.
func TestGateway_journalHasTheAnswer(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	if err := os.MkdirAll(cfg.Data, 0o755); err != nil { //nolint:gosec // the gateway has to fix it
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, cfg)
	if info, err := os.Stat(cfg.Data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory %v, %v; want 0700", info.Mode(), err)
	}
	issued := g.Enrol(1042)
	access, _ := g.Login()
	for i := range 10 {
		if g.Unlock(access, issued.StationToken) {
			t.Fatal("an offline station opened")
		}
		records := g.Records()
		if last := records[len(records)-1]; last.Outcome != site.StationGone {
			t.Fatalf("unlock %d: the newest record is %+v", i+1, last)
		}
	}
}

func TestGateway_rotateAndRemove_endTheLiveConnection(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Configure(t))
	issued := g.Enrol(1042)
	access, _ := g.Login()
	station := g.Dial(issued.MQTT)
	g.AwaitOnline(1042, true)
	rotated, err := g.Admin.Rotate(t.Context(), 1042)
	if err != nil {
		t.Fatal(err)
	}
	checkEnded(t, station)
	old := &gatewaytest.Station{T: t, Conn: dial(t, g.MQTT), Login: issued.MQTT, Version: 4}
	defer old.Close()
	if err := old.TryOpen(1); err == nil {
		t.Error("the old secret still connects")
	}
	station = g.Dial(rotated.MQTT)
	g.AwaitOnline(1042, true)
	if err := g.Admin.RemoveStation(t.Context(), 1042); err != nil {
		t.Fatal(err)
	}
	checkEnded(t, station)
	for _, path := range []string{"", "/locks/lock-1/unlock"} {
		method := http.MethodGet
		if path != "" {
			method = http.MethodPost
		}
		if a := g.Do(method, "/v1/stations/"+issued.StationToken+path, access, nil); a.Status != http.StatusNotFound {
			t.Errorf("%s of the removed station: %d %s", method, a.Status, a.Body)
		}
	}
	// Enrolled again, it is a new station: nobody has a grant for it.
	if _, err := g.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1042, Locks: 2, Token: issued.StationToken}); err != nil {
		t.Fatal(err)
	}
	if a := g.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil); a.Status != http.StatusNotFound {
		t.Errorf("the old grant holds for the new station: %d %s", a.Status, a.Body)
	}
}

// checkEnded waits for the end of a station's connection, before which no command comes.
func checkEnded(t *testing.T, s *gatewaytest.Station) {
	t.Helper()
	if c, err := s.NextCommand(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection goes on: %+v, %v", c, err)
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestNew_refusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, c := range map[string]struct {
		change func(*testing.T, *config.Config)
		says   string
	}{
		"address in use": {func(_ *testing.T, c *config.Config) { c.HTTP.Listen = []string{taken.Addr().String()} }, taken.Addr().String()},
		"no data directory": {func(t *testing.T, c *config.Config) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c.Data = filepath.Join(file, "data")
		}, "GATEHOUSE_DATA"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := gatewaytest.Configure(t)
			c.change(t, &cfg)
			g, err := newGateway(t, cfg)
			if err == nil {
				_ = g.Close()
				t.Fatal("it was made")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: does not name %s", err, c.says)
			}
		})
	}
}

// One damaged row or file does not keep the doors shut: what cannot be read is
// passed over, and the gateway says so.
func TestGateway_startsOverDamage(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.Start(t, cfg)
	issued := g.Enrol(1042)
	g.Enrol(1043)
	access, refresh := g.Login()
	station := g.Dial(issued.MQTT)
	go answerAll(station)
	g.AwaitOnline(1042, true)
	if !g.Unlock(access, issued.StationToken) {
		t.Fatal("the door does not open")
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"UPDATE journal SET body = substr(body, 1, 9) WHERE seq > 3",
		"UPDATE station_states SET body = x'78'",
		"UPDATE access_grant SET hours = 'never' WHERE station = 1043",
		"INSERT INTO meta VALUES ('clock_floor', 'x') ON CONFLICT DO UPDATE SET value = 'x'",
	} {
		damage(t, filepath.Join(cfg.Data, "gatehouse.db"), statement)
	}
	if err := os.WriteFile(filepath.Join(cfg.Data, "token.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	g = gatewaytest.Run(t, cfg)
	station = g.Dial(issued.MQTT)
	go answerAll(station)
	g.AwaitOnline(1042, true)
	var refreshed struct{ AccessToken string }
	if err := json.Unmarshal(g.Do(http.MethodPost, "/v1/auth/refresh", "", refreshBody(refresh)).Body, &refreshed); err != nil {
		t.Fatal(err)
	}
	if !g.Unlock(refreshed.AccessToken, issued.StationToken) {
		t.Error("the door does not open")
	}
	status, err := g.Admin.Status(t.Context())
	if err != nil || !slices.ContainsFunc(status.Conditions, func(c health.Condition) bool {
		return c.Code == health.KeyDamaged && strings.HasPrefix(c.Advice, "Check the owner of token.key")
	}) {
		t.Errorf("conditions %+v, %v; want key-damaged", status.Conditions, err)
	}
}

func damage(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestNew_oneGatewayForOneDirectory(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.Run(t, cfg)
	if second, err := newGateway(t, cfg); err == nil {
		_ = second.Close()
		t.Error("two gateways on one data directory")
	} else if !strings.Contains(err.Error(), "A gateway is running") {
		t.Error(err)
	}
	if _, err := g.Admin.Status(t.Context()); err != nil {
		t.Errorf("the first was disturbed: %v", err)
	}
}

func TestGateway_Run_stopsAtOnce(t *testing.T) {
	g, err := newGateway(t, gatewaytest.Configure(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
}
