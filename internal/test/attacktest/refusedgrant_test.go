package attacktest_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: on a full disk an administrator replaced a grant by one without limits, or
// changed a holiday so that hours began, and was answered with 503. His account was removed. Once
// there was room, also after a restart, the change was stored and the door opened. A refused
// change permits nothing, then and later; only what it revokes is in effect, and stays so.
func TestAttack_refusedGrants(t *testing.T) {
	for name, restarted := range map[string]bool{"holiday added, with a restart": true, "holiday removed": false} {
		t.Run(name, func(t *testing.T) {
			disk := smallDisk(t)
			if disk == "" {
				return
			}
			refusesGrants(t, disk, restarted)
		})
	}
}

// refusesGrants adds a holiday where the gateway is to be restarted, and removes one otherwise.
func refusesGrants(t *testing.T, disk string, restarted bool) {
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk, "data")})
	ctx := t.Context()
	issued, enrolled := p.Admin.AddStation(ctx, adminapi.NewStation{StationID: 1, Locks: 1})
	never, err := site.ParseSchedule("none")
	always, failed := site.ParseSchedule("00:00-24:00")
	year, bad := site.ParseDates("01-01..12-31")
	holiday := adminapi.NewHolidays{Name: "closed", Dates: []site.Dates{year}}
	errs := []error{err, failed, bad, enrolled}
	note := func(_ any, err error) { errs = append(errs, err) }
	past, future := site.At(time.Unix(1_000_000_000, 0)), site.At(time.Unix(4_000_000_000, 0))
	grants := map[string]adminapi.GrantTerms{"wider": {Until: past}, "mixed": {Until: future}, "holiday": {Hours: never, Holidays: always}}
	if !restarted {
		grants["holiday"] = adminapi.GrantTerms{Holidays: never}
		note(p.Admin.AddHolidays(ctx, holiday))
	}
	access := make(map[string]string)
	for _, who := range []string{"wider", "mixed", "holiday", "evil"} {
		email := who + "@example.test"
		note(p.Admin.AddAccount(ctx, adminapi.NewAccount{Email: email, Password: gatewaytest.Password, Admin: who == "evil"}))
		access[who] = logIn(p, email)
		if terms, granted := grants[who]; granted {
			note(p.Admin.Grant(ctx, email, "1", terms))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	check := func(when string, mixed int) {
		t.Helper()
		for who, want := range map[string]int{"wider": http.StatusNotFound, "mixed": mixed, "holiday": http.StatusNotFound} {
			if got := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access[who], nil).Status; got != want {
				t.Errorf("%s: %s: status %d, want %d", when, who, got, want)
			}
		}
	}
	check("before", http.StatusOK)
	filler := filepath.Join(disk, "fill")
	fill(t, filler)
	p.Await("the storage fails", func() bool {
		p.Unlock(access["mixed"], issued.StationToken)
		return raised(p, health.StorageFailing)
	})
	evil := func(method, path string, body any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Do(method, "/admin/v1/"+path, access["evil"], text); got.Status != http.StatusServiceUnavailable {
			t.Errorf("on a full disk: %s: %d %s", path, got.Status, got.Body)
		}
	}
	evil(http.MethodPut, "grants/wider@example.test/1", adminapi.GrantTerms{})
	evil(http.MethodPut, "grants/mixed@example.test/1", adminapi.GrantTerms{Hours: never})
	if restarted {
		evil(http.MethodPost, "holidays", holiday)
	} else {
		evil(http.MethodDelete, "holidays/closed", nil)
	}
	check("refused", http.StatusNotFound)
	if err := p.Admin.RemoveAccount(ctx, "evil@example.test"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("on a full disk: %v", err)
	}
	if restarted {
		p.Kill()
		p.Start()
		p.AwaitReady()
		check("restarted", http.StatusNotFound)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.Await("the removal is stored", func() bool {
		_, _ = p.Admin.SetAdmin(ctx, "wider@example.test", false) // which changes nothing, but stores what is pending
		return stored(p, "evil@example.test")
	})
	check("stored", http.StatusNotFound)
	grant, err := p.Admin.Grants(ctx)
	for _, g := range grant {
		if !g.Until.Equal(past.Time) && g.Email == "wider@example.test" || g.Hours.String() != "none" && g.Email == "mixed@example.test" {
			t.Errorf("stored: %+v", g)
		}
	}
	if err != nil || len(grant) != 3 {
		t.Errorf("%d grants, %v", len(grant), err)
	}
}
