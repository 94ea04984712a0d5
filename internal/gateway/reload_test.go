package gateway_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/health"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// reload has the gateway read cfg and returns the conditions that stand afterwards.
func reload(t *testing.T, g *gatewaytest.Gateway, cfg config.Config, err error) map[health.Code]health.Condition {
	t.Helper()
	g.Running.Reload(t.Context(), func() (config.Config, error) { return cfg, err })
	status, failed := g.Admin.Status(t.Context())
	if failed != nil {
		t.Fatal(failed)
	}
	standing := make(map[health.Code]health.Condition)
	for _, c := range status.Conditions {
		standing[c.Code] = c
	}
	return standing
}

// A reload takes over what it can and says what waits for a restart; a station's
// connection stays, whatever the configuration is.
func TestGateway_Reload(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.Unlock.TTL = time.Second
	level := new(slog.LevelVar)
	g := gatewaytest.RunAs(t, gateway.Config{Config: cfg, Level: level})
	g.AddAccount()
	issued := g.Enrol(1042)
	access, _ := g.Login()
	station := g.Dial(issued.MQTT)
	g.AwaitOnline(1042, true)

	next := cfg
	next.Log.Level, next.Unlock.TTL, next.TimeZone = "warn", time.Minute, "Europe/Berlin"
	if got := reload(t, g, next, nil); got[health.RestartNeeded].Code != "" || level.Level() != slog.LevelWarn {
		t.Errorf("log level %s, conditions %v", level.Level(), got)
	}
	opened := make(chan bool, 1)
	go func() { opened <- g.Unlock(access, issued.StationToken) }()
	c := station.Command() // over the connection of before
	if most := int(cfg.Unlock.TTL / time.Second); c.TTL <= most {
		t.Errorf("a command's deadline is %d s after the reload, as before, when it was %d s at most", c.TTL, most)
	}
	station.Ack(c)
	if !<-opened {
		t.Error("the door did not open")
	}

	next.MQTT.MaxConnections = cfg.MQTT.MaxConnections + 1
	if got := reload(t, g, next, nil)[health.RestartNeeded]; !strings.Contains(got.Summary, "mqtt.max_connections") {
		t.Errorf("what waits for a restart is not named: %+v", got)
	}
	got := reload(t, g, config.Config{}, errors.New("gatehouse.toml:7: nonsense\nand more"))
	if c := got[health.ConfigurationInvalid]; !strings.HasSuffix(c.Summary, "gatehouse.toml:7: nonsense") {
		t.Errorf("a wrong configuration is told as %+v", c)
	}
	if got := reload(t, g, cfg, nil); got[health.ConfigurationInvalid].Code != "" || got[health.RestartNeeded].Code != "" {
		t.Errorf("a right configuration leaves %v", got)
	}
	if err := station.Ping(); err != nil {
		t.Errorf("the station's connection ended: %v", err)
	}
}

// Plain HTTP that others can reach is served because it is configured, and warned of
// for as long as it is.
func TestGateway_plainHTTPIsWarnedOf(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.Listen = append(cfg.HTTP.Listen, "0.0.0.0:0")
	g := gatewaytest.Run(t, cfg)
	if _, stands := reload(t, g, cfg, nil)[health.PlainHTTP]; !stands {
		t.Error("nobody is warned")
	}
}

// heard collects what the gateway tells the service manager.
func heard(t *testing.T) (messages <-chan string, supervisor *machine.Supervisor) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	all, enough, done := make(chan string, 1000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for text := make([]byte, 4096); ; {
			n, err := conn.Read(text)
			if err != nil {
				return
			}
			select {
			case all <- string(text[:n]):
			case <-enough:
				return
			}
		}
	}()
	t.Cleanup(func() { close(enough); _ = conn.Close(); <-done })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.Itoa(300_000))
	supervisor, err = machine.NewSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	return all, supervisor
}

// The watchdog is fed while doors can be opened: also while the store does not answer,
// which is said.
func TestGateway_watchdog(t *testing.T) {
	messages, supervisor := heard(t)
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.RunAs(t, gateway.Config{Config: cfg, Supervisor: supervisor})
	hear := func(what string) {
		t.Helper()
		for !strings.Contains(await.Receive(t, what, messages), what) {
			continue
		}
	}
	hear("READY=1\nSTATUS=Ready to open doors: 0 of 0 stations online")
	hear("WATCHDOG=1")
	hear("WATCHDOG=1")

	release := holdStore(t, filepath.Join(cfg.Data, "gatehouse.db"))
	added := make(chan error, 1)
	go func() {
		_, err := g.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: gatewaytest.Email, Password: gatewaytest.Password})
		added <- err
	}()
	hear("warning: The storage takes no writes")
	for len(messages) > 0 {
		<-messages
	}
	for range 6 {
		hear("WATCHDOG=1")
	}
	release()
	if err := <-added; err != nil && !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	hear("WATCHDOG=1")
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	hear("STOPPING=1")
}

// holdStore keeps the database locked, so that no write is answered, until release is
// called.
func holdStore(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA busy_timeout = %d; BEGIN IMMEDIATE", await.Patience.Milliseconds())); err != nil {
		t.Fatal(err)
	}
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}
