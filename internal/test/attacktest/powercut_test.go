package attacktest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/test/gatewaytest"
)

// The disk of the tests loses what was not flushed and keeps what was.
func TestDisk(t *testing.T) {
	gatewaytest.NeedDisk(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	d.Record()
	for _, name := range []string{"flushed", "lost"} {
		file, err := os.Create(filepath.Join(d.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(name); err != nil {
			t.Fatal(err)
		}
		if name == "flushed" {
			if err := file.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		_ = file.Close()
	}
	cuts := d.Cuts()
	if len(cuts) < 3 {
		t.Fatalf("%d states: too few to tell anything", len(cuts))
	}
	has := func(cut gatewaytest.PowerCut, name string) (whole bool) {
		cut.Mount(t, func(dir string) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			whole = err == nil && string(text) == name
		})
		return whole
	}
	at := slices.IndexFunc(cuts, func(cut gatewaytest.PowerCut) bool { return has(cut, "flushed") })
	if at < 1 || !has(cuts[len(cuts)-1], "flushed") {
		t.Fatalf("what was flushed is there from state %d of %d on, and in the last: %v", at, len(cuts), has(cuts[len(cuts)-1], "flushed"))
	}
	if has(cuts[at], "lost") { // the kernel may flush it later, by itself
		t.Error("what was written after the flush is there")
	}
}

// nextSchema is the build tag of a version whose schema is one newer.
const nextSchema = "gatehouse_nextschema"

// A power cut at each write and each flush of a migration leaves a gateway that
// starts, with every account, station, grant and record of before.
func TestAttack_powerCutInMigration(t *testing.T) {
	gatewaytest.NeedDisk(t)
	gatewaytest.Binary(t)
	gatewaytest.BinaryWith(t, nextSchema)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(d.Dir, "data")})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	p.Unlock(access, issued.StationToken)
	before := len(p.Records())
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	d.Record()
	newer := gatewaytest.Exec(t, gatewaytest.Launch{Data: p.Data, Tags: nextSchema})
	newer.Kill()
	for _, cut := range sample(t, d.Cuts()) {
		cut.Mount(t, func(dir string) {
			q := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(dir, "data"), Tags: nextSchema})
			defer q.Kill()
			access, _ := q.Login()
			if a := q.Do("GET", "/v1/stations/"+issued.StationToken, access, nil); a.Status != 200 {
				t.Errorf("after %d writes (kept %v): the station is gone: %d %s", cut.After, cut.Kept, a.Status, a.Body)
			}
			if n := len(q.Records()); n < before {
				t.Errorf("after %d writes (kept %v): %d records of %d are left", cut.After, cut.Kept, n, before)
			}
		})
	}
}

// sample returns every power cut in the long form, and a few of them in the short
// one, spread over all and both ends among them.
func sample(t *testing.T, cuts []gatewaytest.PowerCut) (some []gatewaytest.PowerCut) {
	t.Helper()
	const few = 8
	t.Logf("%d power cuts", len(cuts))
	if len(cuts) < 3 {
		t.Fatalf("%d power cuts are too few to tell anything", len(cuts))
	}
	if gatewaytest.Torture() || len(cuts) <= few {
		return cuts
	}
	for i := range few {
		some = append(some, cuts[i*(len(cuts)-1)/(few-1)])
	}
	return some
}

// A power cut at each write and each flush of an apply leaves the site of before or the
// whole site of the file, never a part of it.
func TestAttack_powerCutInApply(t *testing.T) {
	gatewaytest.NeedDisk(t)
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(d.Dir, "data")})
	p.AddAccount()
	p.Enrol(1042)
	file := filepath.Join(t.TempDir(), "site.toml")
	if err := os.WriteFile(file, []byte(wholeSite), 0o600); err != nil {
		t.Fatal(err)
	}
	before := inventory(t, p)
	d.Record()
	if out, status := p.Run("apply", file, "--prune"); status != 0 {
		t.Fatalf("apply: %d %s", status, out)
	}
	after := inventory(t, p)
	p.Kill()
	seen := map[string]int{}
	for _, cut := range sample(t, d.Cuts()) {
		cut.Mount(t, func(dir string) {
			q := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(dir, "data")})
			defer q.Kill()
			got := inventory(t, q)
			seen[got]++
			if got != before && got != after {
				t.Errorf("after %d writes (kept %v) there is a part of the site:\n%s", cut.After, cut.Kept, got)
			}
		})
	}
	if seen[before] == 0 || seen[after] == 0 {
		t.Errorf("the power cuts left %d times the old and %d times the new: too few to tell anything", seen[before], seen[after])
	}
}

const wholeSite = `
timezone = "Europe/Berlin"
[[account]]
email = "owner@example.test"
password = "owner-password-1"
admin = true
[[account]]
email = "porter@example.test"
password = "another-password-1"
[[station]]
id = 1
token = "token-of-station-1"
[[station]]
id = 2
name = "Cellar"
locks = 2
[[grant]]
account = "porter@example.test"
stations = [1, 2]
hours = "Mon-Fri 08:00-18:00"
`

// inventory lists the accounts, stations, grants and the time zone of a gateway.
func inventory(t *testing.T, p *gatewaytest.Program) string {
	t.Helper()
	ctx := t.Context()
	status, err := p.Admin.Status(ctx)
	accounts, err1 := p.Admin.Accounts(ctx)
	stations, err2 := p.Admin.Stations(ctx)
	grants, err3 := p.Admin.Grants(ctx)
	if err := errors.Join(err, err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	all := []string{"time zone " + status.TimeZone}
	for _, a := range accounts {
		all = append(all, fmt.Sprintf("account %s %v", a.Email, a.Admin))
	}
	for _, s := range stations {
		all = append(all, fmt.Sprintf("station %d %q, %d locks", s.ID, s.Name, len(s.Locks)))
	}
	for _, g := range grants {
		all = append(all, fmt.Sprintf("grant %s %d %s", g.Email, g.StationID, g.Hours))
	}
	return strings.Join(all, "\n")
}
