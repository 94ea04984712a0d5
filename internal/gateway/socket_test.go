package gateway_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/gateway"
	"gatehouse/internal/test/gatewaytest"
)

// An administration socket that cannot be created has one line in the log for each reason,
// although it is tried every five seconds.
func TestGateway_missingSocket_logsOnce(t *testing.T) {
	var log bytes.Buffer
	cfg := gatewaytest.Configure(t)
	folder := filepath.Join(t.TempDir(), "run")
	cfg.Admin.Socket = filepath.Join(folder, "admin.sock")
	g, err := gateway.New(t.Context(), gateway.Config{Config: cfg, Version: "test", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	lines := func() int {
		for range 3 {
			g.RebindAdmin(t.Context())
		}
		return strings.Count(log.String(), "no administration socket")
	}
	if n := lines(); n != 1 {
		t.Errorf("%d lines without a folder", n)
	}
	if err := os.MkdirAll(cfg.Admin.Socket, 0o700); err != nil {
		t.Fatal(err)
	}
	if n := lines(); n != 2 {
		t.Errorf("%d lines after another reason:\n%s", n, &log)
	}
	if err := os.Remove(cfg.Admin.Socket); err != nil {
		t.Fatal(err)
	}
	if g.RebindAdmin(t.Context()); !strings.Contains(log.String(), "was missing and is created") {
		t.Errorf("it is not created:\n%s", &log)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
