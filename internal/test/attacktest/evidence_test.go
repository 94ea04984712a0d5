package attacktest_test

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// What was possible: failed logins from many addresses, or one station that reports changes
// of its locks without end, filled the journal within days, and the oldest records went,
// whatever they were: who opened a door, and who changed what. What strangers and stations
// cause has a quarter of the journal.
func TestAttack_evidenceShare(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: data})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	answering(p, issued.MQTT)
	p.AwaitOnline(1042, true)
	if !p.Unlock(access, issued.StationToken) {
		t.Fatal("the door does not open")
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	addEvidence(t, filepath.Join(data, "gatehouse.db"))
	p = gatewaytest.Exec(t, gatewaytest.Launch{Data: data, Env: []string{"GATEHOUSE_JOURNAL_MAX_SIZE=1MB"}})
	p.AwaitRecord("the removal", func(r site.Record) bool { return r.Kind == site.KindGap })
	for _, kind := range []site.Kind{site.KindUnlock, site.KindStationAdded, site.KindAccountAdded, site.KindLogin} {
		p.AwaitRecord("what people did", func(r site.Record) bool { return r.Kind == kind })
	}
	out, status := p.Run("journal", "verify", "--json")
	verdict(t, out, status)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	out, status = p.Run("journal", "verify", "--json", filepath.Join(data, "gatehouse.db"))
	verdict(t, out, status)
}

// verdict fails unless a journal is whole and records were removed from it.
func verdict(t *testing.T, out string, status int) {
	t.Helper()
	var v journal.Verdict
	if err := json.Unmarshal([]byte(out), &v); err != nil || status != 0 || v.Broken != 0 || v.Removed == 0 {
		t.Errorf("status %d: %s", status, out)
	}
}

// addEvidence adds records that strangers cause to the database of a gateway that does not run.
func addEvidence(t *testing.T, path string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: "filler", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	db.UseClock(systemClock{})
	for i := range 8000 {
		db.AppendLater(site.Record{Kind: site.KindLoginFailed, Facts: site.Facts{Remote: "192.0.2.7", Detail: strings.Repeat("x", 100), Count: i}})
		if i%1000 == 999 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
