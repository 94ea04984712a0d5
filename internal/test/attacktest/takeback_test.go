package attacktest_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// trial is a site whose newer version was tried: an account was added and another
// removed, and a door was opened.
type trial struct {
	data    string
	issued  adminapi.IssuedStation
	refresh string // of a login that was revoked in the trial
	records []site.Record
	keyed   string // the command that opened a door
}

const (
	fired = "fired@example.test"
	hired = "hired@example.test"
)

// beginTrial sets a site up, and tries the version after this one, until it is killed.
func beginTrial(t *testing.T, data string) (r trial) {
	t.Helper()
	r.data = data
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: data})
	p.AddAccount()
	r.issued = p.Enrol(1042)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: fired, Password: gatewaytest.Password}))
	must(p.Admin.Grant(t.Context(), fired, "1042", adminapi.GrantTerms{}))
	_, r.refresh = p.Login()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	newer := gatewaytest.Exec(t, gatewaytest.Launch{Data: data, Tags: nextSchema})
	if a := newer.Do("POST", "/v1/auth/revoke", "", []byte(`{"refreshToken":"`+r.refresh+`"}`)); a.Status != http.StatusOK {
		t.Fatalf("revoking: %d %s", a.Status, a.Body)
	}
	must(nil, newer.Admin.RemoveAccount(t.Context(), fired))
	must(newer.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: hired, Password: gatewaytest.Password}))
	access, _ := newer.Login()
	station := newer.Dial(r.issued.MQTT)
	opened := make(chan string, 1)
	go func() {
		c := station.Command()
		opened <- c.ID
		_ = station.TryAck(c)
	}()
	if a := keyed(t, newer.HTTP, access, r.issued.StationToken); !strings.Contains(a, "true") {
		t.Fatalf("the unlock was answered %s", a)
	}
	r.keyed = <-opened
	newer.AwaitRecord("the outcome", func(a site.Record) bool { return string(a.Command) == r.keyed && a.Outcome == site.Acknowledged })
	r.records = newer.Records()
	newer.Kill()
	return r
}

// keyed asks for an unlock with an idempotency key and returns the answer.
func keyed(t *testing.T, base, access, station string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/stations/"+station+"/locks/lock-1/unlock", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+access)
	req.Header.Set("Idempotency-Key", "in-the-trial")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Get("Gatehouse-Command") + " " + strings.TrimSpace(string(text))
}

// allowTakeBack has root's status say that this start may take the database back; it needs
// the namespaces of the test.
func allowTakeBack(t *testing.T) {
	t.Helper()
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := (slot.Exchange{}).WriteStatus(site.UpdateStatus{Image: true, TakeBack: true}); err != nil {
		t.Fatal(err)
	}
}

// check checks that a gateway has all of the trial that it has to have.
func (r trial) check(t *testing.T, p *gatewaytest.Program) (access string) {
	t.Helper()
	records := p.Records()
	if len(records) <= len(r.records) {
		t.Fatalf("%d records of %d are left", len(records), len(r.records))
	}
	for i, want := range r.records {
		if got := records[i]; !bytes.Equal(got.AppendJSON(nil), want.AppendJSON(nil)) {
			t.Errorf("record %d is %+v, was %+v", i+1, got, want)
		}
	}
	if out, status := p.Run("journal", "verify"); status != 0 {
		t.Errorf("the journal is not whole: %s", out)
	}
	if a := p.Do("POST", "/v1/auth/refresh", "", []byte(`{"refreshToken":"`+r.refresh+`"}`)); a.Status != http.StatusUnauthorized {
		t.Errorf("a login that was revoked in the trial is answered %d", a.Status)
	}
	if a := p.Do("POST", "/v1/auth/login", "", []byte(`{"email":"`+fired+`","password":"`+gatewaytest.Password+`"}`)); a.Status != http.StatusUnauthorized {
		t.Errorf("an account that was removed in the trial logs in: %d", a.Status)
	}
	access, _ = p.Login()
	if a := p.Do("GET", "/v1/stations/"+r.issued.StationToken, access, nil); a.Status != http.StatusOK {
		t.Errorf("the station is gone: %d %s", a.Status, a.Body)
	}
	return access
}

// After a failed trial the version of before goes on with its own database: every record of
// the trial is there, what was carried out in it is not carried out again, what was
// revoked stays revoked, and doors open. Without root's word it refuses to start.
func TestAttack_trialTakenBack(t *testing.T) {
	gatewaytest.Binary(t)
	gatewaytest.BinaryWith(t, nextSchema)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	r := beginTrial(t, filepath.Join(t.TempDir(), "data"))
	refused := exec.CommandContext(t.Context(), gatewaytest.Binary(t), "serve") //nolint:gosec // our own binary
	refused.Env = append(os.Environ(), "GATEHOUSE_DATA="+r.data)
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "is of a newer version of gatehouse") {
		t.Fatalf("without root's word: %v %s", err, out)
	}
	allowTakeBack(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: r.data})
	access := r.check(t, p)
	if a := keyed(t, p.HTTP, access, r.issued.StationToken); a != r.keyed+` {"success":true}` { // with no station there
		t.Errorf("the unlock of the trial is answered %s", a)
	}
	station := p.Dial(r.issued.MQTT)
	go func() { _ = station.TryAck(station.Command()) }()
	if !p.Unlock(access, r.issued.StationToken) {
		t.Error("the door does not open")
	}
	status, err := p.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := slices.IndexFunc(status.Conditions, func(c health.Condition) bool { return c.Code == health.DataTakenBack })
	if found < 0 || !strings.Contains(status.Conditions[found].Summary, "account added: "+hired) || strings.Contains(status.Conditions[found].Summary, fired) {
		t.Errorf("the conditions are %+v", status.Conditions)
	}
	// It stays over a restart, which takes nothing back, and ends with the newer database.
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.data, "gatehouse.db.newer")); err != nil {
		t.Fatal(err)
	}
	p.Start()
	p.AwaitReady()
	r.check(t, p)
}

// A trial that has left nothing of its database keeps no door shut: the version of before
// goes on with its copy, and says what may be missing.
func TestAttack_damagedTrialTakenBack(t *testing.T) {
	gatewaytest.Binary(t)
	gatewaytest.BinaryWith(t, nextSchema)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	r := beginTrial(t, filepath.Join(t.TempDir(), "data"))
	noise := bytes.Repeat([]byte{0xa5}, 20_000)
	for _, name := range []string{"gatehouse.db", "gatehouse.db-wal"} {
		if err := os.WriteFile(filepath.Join(r.data, name), noise, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	allowTakeBack(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: r.data})
	station := p.Dial(r.issued.MQTT)
	go func() { _ = station.TryAck(station.Command()) }()
	if access, _ := p.Login(); !p.Unlock(access, r.issued.StationToken) {
		t.Error("the door does not open")
	}
	if out, status := p.Run("journal", "verify"); status != 0 {
		t.Errorf("the journal is not whole: %s", out)
	}
	status, err := p.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := slices.IndexFunc(status.Conditions, func(c health.Condition) bool { return c.Code == health.DataTakenBack })
	if found < 0 || status.Conditions[found].Severity != health.Warning || !strings.Contains(status.Conditions[found].Summary, "may be lost") {
		t.Errorf("the conditions are %+v", status.Conditions)
	}
	if kept, err := os.ReadFile(filepath.Join(r.data, "gatehouse.db.newer")); err != nil || !bytes.Equal(kept, noise) {
		t.Errorf("the newer database was not kept: %v", err)
	}
}

// A power cut at each write and each flush while the database is taken back leaves the
// newer one or the older one, whole: the version of before starts with every record of the
// trial and without what it revoked, also when the newer version was started in between.
func TestAttack_powerCutInTakeBack(t *testing.T) {
	gatewaytest.NeedDisk(t)
	gatewaytest.Binary(t)
	gatewaytest.BinaryWith(t, nextSchema)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	r := beginTrial(t, filepath.Join(d.Dir, "data"))
	allowTakeBack(t)
	d.Record()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: r.data})
	p.Kill()
	seen := map[string]int{}
	for i, cut := range sample(t, d.Cuts()) {
		cut.Mount(t, func(dir string) {
			data := filepath.Join(dir, "data")
			seen[stateOf(t, data)]++
			if i%2 == 1 {
				newer := gatewaytest.Exec(t, gatewaytest.Launch{Data: data, Tags: nextSchema})
				newer.Kill()
			}
			q := gatewaytest.Exec(t, gatewaytest.Launch{Data: data})
			defer q.Kill()
			r.check(t, q)
			if t.Failed() {
				t.Fatalf("after %d writes (kept %v)", cut.After, cut.Kept)
			}
		})
	}
	t.Logf("%v", seen)
	if len(seen) < 2 {
		t.Errorf("%v: this proves nothing", seen)
	}
}

// On a full disk the newer database and its copy stay as they are, and the version of
// before goes on as soon as there is room for the records of the trial.
func TestAttack_takeBackOnFullDisk(t *testing.T) {
	gatewaytest.NeedDisk(t)
	gatewaytest.Binary(t)
	gatewaytest.BinaryWith(t, nextSchema)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	r := beginTrial(t, filepath.Join(d.Dir, "data"))
	allowTakeBack(t)
	filler := filepath.Join(d.Dir, "fill")
	fill(t, filler)
	refused := exec.CommandContext(t.Context(), gatewaytest.Binary(t), "serve") //nolint:gosec // our own binary
	refused.Env = append(os.Environ(), "GATEHOUSE_DATA="+r.data)
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "check free space with df") {
		t.Fatalf("on a full disk: %v %s", err, out)
	}
	if state := stateOf(t, r.data); !strings.HasPrefix(state, ".schema") || strings.Contains(state, " ") {
		t.Errorf("there are %s", state)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.check(t, gatewaytest.Exec(t, gatewaytest.Launch{Data: r.data}))
}

// stateOf names the databases in a folder.
func stateOf(t *testing.T, data string) string {
	t.Helper()
	var names []string
	for _, name := range namesIn(t, data) {
		suffix, ours := strings.CutPrefix(name, "gatehouse.db")
		if ours && strings.HasPrefix(suffix, ".") && !slices.Contains([]string{".copy", ".head", ".revocations"}, suffix) {
			names = append(names, suffix)
		}
	}
	return strings.Join(names, " ")
}
