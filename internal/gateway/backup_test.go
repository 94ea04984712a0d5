package gateway_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// Doors open while a backup is taken; it is on record before anything leaves, and
// leaves nothing in the data directory.
func TestGateway_backup(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.Start(t, cfg)
	issued := g.Enrol(1042)
	access, _ := g.Login()
	go answerAll(g.Dial(issued.MQTT))
	g.AwaitOnline(1042, true)
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			body, err := g.Admin.Backup(context.Background())
			if err != nil {
				t.Error(err)
				break
			}
			m, err := backup.Seal(context.Background(), io.Discard, "four words nobody knows", body, nil)
			if err := errors.Join(err, body.Close()); err != nil || m.Holds.Stations != 1 {
				t.Errorf("%+v, %v", m, err)
			}
		}
		taken <- n
	}()
	g.AwaitRecord("a backup", func(r site.Record) bool {
		return r.Kind == site.KindBackupTaken && r.Origin == site.Admin && strings.HasPrefix(r.By, "uid ")
	})
	for range 50 {
		if !g.Unlock(access, issued.StationToken) {
			t.Error("the door did not open")
		}
	}
	cancel()
	if n := <-taken; n < 1 {
		t.Errorf("%d backups were taken", n)
	}
	for _, name := range namesIn(t, cfg.Data) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("%s is left", name)
		}
	}
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A gateway whose restore was interrupted completes it before it opens anything.
func TestGateway_completesARestore(t *testing.T) {
	identity := func(cfg string) site.GatewayID {
		inv, err := sqlite.Files{}.Inspect(t.Context(), filepath.Join(cfg, "gatehouse.db"), "the database")
		if err != nil {
			t.Fatal(err)
		}
		return inv.Gateway
	}
	restored, present := gatewaytest.Configure(t), gatewaytest.Configure(t)
	for _, g := range []*gatewaytest.Gateway{gatewaytest.Run(t, restored), gatewaytest.Run(t, present)} {
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	want, former := identity(restored.Data), identity(present.Data)
	staged := filepath.Join(present.Data, ".restored-1", "data")
	if err := os.MkdirAll(staged, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gatehouse.db", "token.key"} {
		if err := os.Rename(filepath.Join(restored.Data, name), filepath.Join(staged, name)); err != nil {
			t.Fatal(err)
		}
	}
	g := gatewaytest.Run(t, present)
	status, err := g.Admin.Status(t.Context())
	if err != nil || status.GatewayID != want {
		t.Errorf("it is %s, %v; want %s", status.GatewayID, err, want)
	}
	if kept := identity(filepath.Join(present.Data, "before-restore-1")); kept != former {
		t.Errorf("kept is %s, want %s", kept, former)
	}
	if names := namesIn(t, present.Data); slices.Contains(names, ".restored-1") {
		t.Errorf("the data directory has %v", names)
	}
}

func TestTakeData(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	release, err := gateway.TakeData(cfg.Data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.TakeData(cfg.Data); !fault.Is(err, fault.Conflict) {
		t.Errorf("taken twice: %v", err)
	}
	release()
	g := gatewaytest.Run(t, cfg)
	if _, err := gateway.TakeData(cfg.Data); !fault.Is(err, fault.Conflict) {
		t.Errorf("of a running gateway: %v", err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}
