package attacktest_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// What was possible: where the files of the database were removed, or another was moved over them,
// while the gateway ran, doors opened for as long as it ran, and all their records were lost when it
// ended; nothing reported it. The database is written anew within a second, and what is in its
// place is set aside; where that is impossible, the finding and the system log have it, as of a
// failing disk.
func TestAttack_replacedDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(t *testing.T, data string)
		restore func(t *testing.T, data string) // nil: the gateway does it by itself
		aside   bool
	}{
		"removed": {replace: func(t *testing.T, data string) { removeFamily(t, data) }},
		"log removed": {aside: true, replace: func(t *testing.T, data string) {
			check(t, os.Remove(filepath.Join(data, "gatehouse.db-wal")))
		}},
		"another moved there": {aside: true, replace: func(t *testing.T, data string) {
			path := filepath.Join(data, "gatehouse.db")
			text, err := os.ReadFile(path) //nolint:gosec // the test's own
			check(t, err)
			check(t, os.WriteFile(path+".former", text, 0o600))
			check(t, os.Rename(path+".former", path))
		}},
		"folder moved away": {
			aside:   true,
			replace: func(t *testing.T, data string) { check(t, os.Rename(data, data+".away")) },
			restore: func(t *testing.T, data string) { check(t, os.Rename(data+".away", data)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := gatewaytest.Exec(t, gatewaytest.Launch{Socket: filepath.Join(t.TempDir(), "admin.sock")})
			p.AddAccount()
			issued := p.Enrol(1042)
			access, refresh := p.Login()
			answering(p, issued.MQTT)
			p.AwaitOnline(1042, true)
			path := filepath.Join(p.Data, "gatehouse.db")
			opened, err := os.Stat(path)
			check(t, err)
			c.replace(t, p.Data)
			placed, _ := os.Stat(path)
			unlocks := 0
			for range 3 {
				if !p.Unlock(access, issued.StationToken) {
					t.Error("the door does not open")
				}
				unlocks++
			}
			if c.restore != nil {
				p.Await("the finding is raised", func() bool { return raised(p, health.StorageFailing) })
				if a := p.Do(http.MethodGet, "/readyz", "", nil); a.Status != http.StatusOK {
					t.Errorf("not ready: %d %s", a.Status, a.Body)
				}
				c.restore(t, p.Data)
			}
			p.Await("the database is written anew", func() bool {
				now, err := os.Stat(path)
				return err == nil && !os.SameFile(now, opened) && (placed == nil || !os.SameFile(now, placed))
			})
			p.Await("the finding has gone", func() bool { return !raised(p, health.StorageFailing) })
			before := p.Records()
			p.Kill()
			p.Start()
			p.AwaitReady()
			after := p.Records()
			if len(after) < len(before) || !slices.EqualFunc(before, after[:len(before)], func(a, b site.Record) bool { return a.Seq == b.Seq && a.Kind == b.Kind }) {
				t.Errorf("%d records before the restart, %d after it", len(before), len(after))
			}
			if v, err := p.Admin.VerifyJournal(t.Context()); err != nil || v.Broken != 0 {
				t.Errorf("verdict %+v, %v", v, err)
			}
			requested := 0
			for _, r := range after {
				if r.Kind == site.KindUnlock && r.Outcome == site.Requested {
					requested++
				}
			}
			if requested != unlocks {
				t.Errorf("%d unlocks, %d in the journal", unlocks, requested)
			}
			if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, refresh)); a.Status != http.StatusOK {
				t.Errorf("refreshing: %d %s", a.Status, a.Body)
			}
			aside, _ := filepath.Glob(filepath.Join(p.Data, "gatehouse.db.damaged-*Z"))
			if (len(aside) > 0) != c.aside {
				t.Errorf("set aside: %v", aside)
			}
			if raised(p, health.StorageDamaged) {
				t.Error("the finding of damage is raised")
			}
		})
	}
}

// removeFamily removes the database and every file with its name.
func removeFamily(t *testing.T, data string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(data, "gatehouse.db*"))
	check(t, err)
	for _, path := range all {
		check(t, os.Remove(path))
	}
}
