package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/record/slate"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// Revocations that were not stored and that this version cannot read, because a later one or a
// broken disk wrote them, are a finding, which no other revocation clears.
func TestGateway_unreadableRevocations(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	first := gatewaytest.Start(t, cfg)
	about, err := first.Admin.Status(t.Context())
	if err := errors.Join(err, first.Stop()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.Data, "gatehouse.db.revocations")
	for name, write := range map[string]func() error{
		"of a later version": func() error {
			if err := os.Remove(path); err != nil {
				return err
			}
			s, _, err := slate.Open(cfg.Data, "", string(about.GatewayID))
			_ = s.Hold([]byte(`{"RemoveRoof":1,"Record":{},"Revocation":1000000000000}` + "\n")) // there is no runtime directory
			return errors.Join(err, s.Save(t.Context()))
		},
		"damaged": func() error { return os.WriteFile(path, make([]byte, 512<<10), 0o600) },
	} {
		if err := write(); err != nil {
			t.Fatal(name, err)
		}
		g := gatewaytest.Run(t, cfg)
		g.Enrol(7)
		for range 2 {
			status, err := g.Admin.Status(t.Context())
			if err != nil || !slices.ContainsFunc(status.Conditions, func(c health.Condition) bool {
				return c.Code == health.RevocationsUnstored && strings.Contains(c.Advice, "Revoke again")
			}) {
				t.Errorf("%s: conditions %+v, %v", name, status.Conditions, err)
			}
			if err := g.Admin.RemoveStation(t.Context(), 7); err != nil && !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		g = gatewaytest.Run(t, cfg)
		if status, err := g.Admin.Status(t.Context()); err != nil || slices.ContainsFunc(status.Conditions, func(c health.Condition) bool { return c.Code == health.RevocationsUnstored }) {
			t.Errorf("%s: after a revocation and a restart: %+v, %v", name, status.Conditions, err)
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// The disk runs full while the gateway works: doors open for those who are logged in,
// what needs a write is refused, nothing is called a success that is not, and once
// there is room again every record is in the journal, in order and unbroken.
func TestGateway_fullDisk_doorsStillOpen(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	cfg := gatewaytest.Configure(t)
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", cfg.Data, "tmpfs", 0, "size=12m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(cfg.Data, unix.MNT_DETACH) })
	g := gatewaytest.Start(t, cfg)
	issued := g.Enrol(1042)
	access, refresh := g.Login()
	other, otherRefresh := g.Login()
	station := g.Dial(issued.MQTT)
	go answerAll(station)
	g.AwaitOnline(1042, true)
	if !g.Unlock(access, issued.StationToken) {
		t.Fatal("the door does not open while all is well")
	}

	filler := filepath.Join(cfg.Data, "filler")
	fill(t, filler)
	logged := func() int { return strings.Count(g.Log(), "record kept in memory") }
	opened := 1
	for ; logged() == 0 && opened < 20; opened++ { // the log of the database has room for some records yet
		if !g.Unlock(access, issued.StationToken) {
			t.Error("an unlock on a filling disk failed")
		}
	}
	for i := range 5 {
		opened++
		if !g.Unlock(access, issued.StationToken) {
			t.Errorf("unlock %d on a full disk failed", i+1)
		}
	}
	if a := g.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil); a.Status != http.StatusOK {
		t.Errorf("reading on a full disk: %d", a.Status)
	}
	if a := g.Do(http.MethodPost, "/v1/auth/refresh", "", refreshBody(refresh)); a.Status != http.StatusOK {
		t.Errorf("refreshing on a full disk: %d %s", a.Status, a.Body)
	}
	login := fmt.Sprintf(`{"email":%q,"password":%q}`, gatewaytest.Email, gatewaytest.Password)
	if a := g.Do(http.MethodPost, "/v1/auth/login", "", []byte(login)); a.Status != http.StatusServiceUnavailable {
		t.Errorf("a login, which needs a write: %d %s", a.Status, a.Body)
	}
	for range 2 { // the second try is refused as the first was, not taken for a dead token's
		if a := g.Do(http.MethodPost, "/v1/auth/revoke", "", refreshBody(otherRefresh)); a.Status != http.StatusServiceUnavailable {
			t.Errorf("a revocation that cannot be kept: %d %s", a.Status, a.Body)
		}
	}
	if a := g.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, other, nil); a.Status != http.StatusUnauthorized {
		t.Errorf("the session whose revocation could not be kept still reads: %d", a.Status)
	}
	if a := g.Do(http.MethodGet, "/readyz", "", nil); a.Status != http.StatusOK {
		t.Errorf("not ready on a full disk, but doors open: %d %s", a.Status, a.Body)
	}
	status, err := g.Admin.Status(t.Context())
	for _, code := range []health.Code{health.StorageFailing, health.RevocationsUnstored} {
		if err != nil || !slices.ContainsFunc(status.Conditions, func(c health.Condition) bool { return c.Code == code }) {
			t.Errorf("conditions %+v, %v; want %s", status.Conditions, err, code)
		}
	}
	g.Await("intent and outcome of each unlock are in the system log", func() bool { return logged() >= 10 })

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if a := g.Do(http.MethodPost, "/v1/auth/revoke", "", refreshBody(otherRefresh)); a.Status != http.StatusOK {
		t.Errorf("the revocation, once there is room: %d %s", a.Status, a.Body)
	}
	if !g.Unlock(access, issued.StationToken) {
		t.Error("the door does not open after the disk has room again")
	}
	opened++
	count := func(outcome site.Outcome) (n int) {
		for _, r := range g.Records() {
			if r.Kind == site.KindUnlock && r.Outcome == outcome {
				n++
			}
		}
		return n
	}
	g.AwaitRecord("the last outcome", func(site.Record) bool { return count(site.Acknowledged) == opened })
	if n := count(site.Requested); n != opened {
		t.Errorf("%d intents in the journal, want %d", n, opened)
	}
	if v, err := g.Admin.VerifyJournal(t.Context()); err != nil || v.Broken != 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

// A board whose disk has become full or read-only comes back from a power cut, and
// from an orderly stop, and opens doors.
func TestGateway_failingDisk_startsAgain(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	cfg := gatewaytest.Configure(t)
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", cfg.Data, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(cfg.Data, unix.MNT_DETACH) })
	cfg.Admin.Socket = filepath.Join(t.TempDir(), "admin.sock")
	g := gatewaytest.Start(t, cfg)
	issued := g.Enrol(1042)
	access, _ := g.Login()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, fail := range map[string]func(){
		"full": func() { fill(t, filepath.Join(cfg.Data, "filler")) },
		"read-only": func() {
			if err := unix.Mount("", cfg.Data, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		},
	} {
		fail()
		for range 2 {
			g = gatewaytest.Run(t, cfg)
			station := g.Dial(issued.MQTT)
			go answerAll(station)
			g.AwaitOnline(1042, true)
			if !g.Unlock(access, issued.StationToken) {
				t.Errorf("%s: the door does not open", name)
			}
			_ = g.Stop() // says which records were not written
		}
		if err := unix.Mount("", cfg.Data, "", unix.MS_REMOUNT, ""); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(cfg.Data, "filler")); err != nil {
			t.Fatal(err)
		}
	}
}

func refreshBody(token string) []byte {
	body, _ := json.Marshal(map[string]string{"refreshToken": token}) //nolint:errchkjson // strings only
	return body
}

// answerAll acknowledges every command until the connection ends.
func answerAll(s *gatewaytest.Station) {
	for {
		c, err := s.NextCommand()
		if err != nil {
			return
		}
		if err := s.TryAck(c); err != nil {
			return
		}
	}
}

// fill writes until there is no room.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}
