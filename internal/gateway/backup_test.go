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

// What an administrator downloads is what gatehouse restore takes, without the
// configuration; it is on record, and nothing of it is on the disk.
func TestGateway_sealedBackup(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	g, v := asChief(t, cfg)
	g.Enrol(1042)
	v.want(400, "POST", "/admin/v1/backup", `{"passphrase":"too short","password":"correct horse battery"}`)
	v.want(400, "POST", "/admin/v1/backup", `{"passphrase":"aaaaaaaaaaaaaaaaaaaa","password":"correct horse battery"}`)
	v.want(403, "POST", "/admin/v1/backup", `{"passphrase":"four words nobody knows","password":"correct horse battery"}`, "Sec-Fetch-Site", "cross-site")
	v.want(403, "POST", "/admin/v1/backup", `{"passphrase":"four words nobody knows","password":"correct horse"}`)
	status, file := v.send("POST", "/admin/v1/backup", `{"passphrase":"four words nobody knows","password":"correct horse battery"}`)
	path := filepath.Join(t.TempDir(), "gatehouse.backup")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	medium, err := backup.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = medium.Close() }()
	m, draft, err := medium.Pass(t.Context(), "four words nobody knows", io.Discard)
	if err != nil || m.Holds.Stations != 1 || m.Holds.Accounts != 2 || len(draft.Settings()) != 0 {
		t.Errorf("it holds %+v and %d settings, %v", m.Holds, len(draft.Settings()), err)
	}
	if _, _, err := medium.Pass(t.Context(), "four words somebody knows", io.Discard); !fault.Is(err, fault.Forbidden) && !fault.Is(err, fault.Invalid) {
		t.Errorf("with another passphrase: %v", err)
	}
	var taken []site.Record
	if slices.ContainsFunc(m.Files, func(e backup.Entry) bool { return strings.HasPrefix(e.Name, "data/tls/") }) {
		t.Errorf("the certificates are in it: %+v", m.Files)
	}
	ofRoot, err := g.Admin.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ofRoot.Close() }()
	if m, err = backup.Seal(t.Context(), io.Discard, "four words nobody knows", ofRoot, nil); err != nil ||
		!slices.ContainsFunc(m.Files, func(e backup.Entry) bool { return e.Name == "data/tls/ca.key" }) {
		t.Errorf("that of root has %+v, %v", m.Files, err)
	}
	for _, r := range g.Records() {
		if r.Kind == site.KindBackupTaken {
			taken = append(taken, r)
		}
	}
	if len(taken) != 2 || taken[0].By != chief || taken[0].Origin != site.Admin {
		t.Errorf("on record are %+v", taken)
	}
	for _, name := range namesIn(t, cfg.Data) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("%s is left", name)
		}
	}
	if strings.Contains(g.Log(), "nobody knows") {
		t.Error("the log has the passphrase")
	}
}

// A backup whose client disconnects ends, so that the next one can be taken.
func TestGateway_sealedBackup_disconnected(t *testing.T) {
	g, v := asChief(t, gatewaytest.Configure(t))
	const body = `{"passphrase":"four words nobody knows","password":"correct horse battery"}`
	first := v.open("POST", "/admin/v1/backup", body)
	_ = first.Body.Close()
	g.Await("the next one", func() bool {
		status, _ := v.send("POST", "/admin/v1/backup", body)
		return status == 200
	})
}

// Where a service manager starts the gateway again, an administrator restarts it; it is
// on record who.
func TestGateway_restart(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	g, v := asChief(t, cfg)
	v.want(409, "POST", "/admin/v1/restart", "")
	heard(t) // from now on there is a service manager
	v.want(403, "POST", "/admin/v1/restart", "", "Sec-Fetch-Site", "cross-site")
	v.want(405, "GET", "/admin/v1/restart", "")
	before, err := g.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := v.send("POST", "/admin/v1/restart", ""); status != 202 || body != `{"boot":"`+string(before.Boot)+`"}`+"\n" {
		t.Errorf("answered %d %s", status, body)
	}
	g.Await("it has ended", func() bool { return strings.Contains(g.Log(), "msg=stopped") })
	if err := g.Stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	g = gatewaytest.Run(t, cfg)
	record := g.AwaitRecord("the restart", func(r site.Record) bool { return r.Kind == site.KindStopped })
	if record.By != chief || record.Origin != site.Admin || record.Detail != "to be started again" {
		t.Errorf("the record is %+v", record)
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
	if err := os.MkdirAll(filepath.Join(staged, "tls"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(restored.Data, "gatehouse.db"), filepath.Join(staged, "gatehouse.db")); err != nil {
		t.Fatal(err)
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
