package attacktest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// Access by a group, or outside of holidays, would outlive its end where only grants of
// accounts are watched: the next request is refused and an open stream ends, each time.
func TestAttack_groupAndHoliday(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	ctx, admin := t.Context(), p.Admin
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	none, err := site.ParseSchedule("none")
	must(err)
	days, err := site.ParseDates(time.Now().AddDate(0, 0, -2).Format(time.DateOnly) + ".." + time.Now().AddDate(0, 0, 2).Format(time.DateOnly))
	must(err)
	member := adminapi.Members{Accounts: []site.Email{insider}}
	_, err = admin.AddAccount(ctx, adminapi.NewAccount{Email: insider, Password: gatewaytest.Password})
	must(err)
	_, err = admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Add: member})
	must(err)
	_, err = admin.ChangeGroup(ctx, "doors", adminapi.GroupPatch{Add: adminapi.Members{Stations: []site.StationID{1042}}})
	must(err)
	_, err = admin.Grant(ctx, "people", "doors", adminapi.GrantTerms{Holidays: none})
	must(err)
	bearer := loginAs(t, p, insider)
	for name, c := range map[string]struct{ end, renew func() error }{
		"member": {
			func() error {
				_, err := admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Remove: member})
				return err
			},
			func() error { _, err := admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Add: member}); return err },
		},
		"holiday": {
			func() error {
				_, err := admin.AddHolidays(ctx, adminapi.NewHolidays{Name: "now", Dates: []site.Dates{days}})
				return err
			},
			func() error { return admin.RemoveHoliday(ctx, "now") },
		},
		"grant": {
			func() error { return admin.Ungrant(ctx, "people", "doors") },
			func() error {
				_, err := admin.Grant(ctx, "people", "doors", adminapi.GrantTerms{Holidays: none})
				return err
			},
		},
	} {
		endsAccess(t, p, name, bearer, issued.StationToken, c.end)
		must(c.renew())
	}
	// A calendar that is refused changes nothing, and delays nobody.
	for _, ics := range []string{strings.Repeat("X:\n", 300_000), "BEGIN:VCALENDAR\n" + strings.Repeat("BEGIN:VEVENT\n", 70_000), strings.Repeat(" ", 1<<20)} {
		if _, err := admin.AddHolidays(ctx, adminapi.NewHolidays{ICS: ics}); err == nil {
			t.Error("a calendar of nonsense was read")
		}
	}
	endsAccess(t, p, "group", bearer, issued.StationToken, func() error { return admin.RemoveGroup(ctx, "doors") })
}

// endsAccess requires that an account may use a station until end is called.
func endsAccess(t *testing.T, p *gatewaytest.Program, name, bearer, token string, end func() error) {
	t.Helper()
	if status, _ := unlockAs(t.Context(), p, bearer, token); status != http.StatusOK {
		t.Fatalf("%s: an unlock before is answered with %d", name, status)
	}
	req, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, p.HTTP+"/local/v1/stations/"+token+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	stream, err := http.DefaultClient.Do(req)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("%s: the stream: %v", name, err)
	}
	defer func() { _ = stream.Body.Close() }()
	if err := end(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if status, _ := unlockAs(t.Context(), p, bearer, token); status != http.StatusNotFound {
		t.Errorf("%s: the next unlock is answered with %d", name, status)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // until the gateway ends it
		t.Errorf("%s: the stream ended with %v", name, err)
	}
}
