package access_test

import (
	"testing"
	"time"

	"gatehouse/internal/site"
)

// A denial says why, and a station that is closed when it opens again: for the best of an
// account's grants, its own and those of groups.
func TestService_Denial(t *testing.T) {
	h := open(t) // it is Saturday, 2026-11-21, 07:00:00.250 UTC
	h.SetZone(time.UTC)
	account := h.add(porter)
	now := h.clock.Now()
	monday := site.At(time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC))
	week := site.Terms{Hours: hours(t, "Mon-Fri 08:00-18:00")}
	ended := site.Terms{Until: site.At(now)}
	h.ok(h.ChangeGroup(t.Context(), admin(), "people", site.OfAccounts, []site.Member{{Account: account.ID}}, nil))
	h.ok(h.ChangeGroup(t.Context(), admin(), "doors", site.OfStations, []site.Member{{Station: 4}}, nil))
	for _, g := range []site.Grant{
		{Account: account.ID, Station: 1, Terms: week},
		{Account: account.ID, Station: 2, Terms: ended},
		{Account: account.ID, Station: 3, Terms: site.Terms{From: monday}},
		{AccountGroup: "people", StationGroup: "doors", Terms: week},
		{Account: account.ID, Station: 4, Terms: ended},
		{Account: account.ID, Station: 5, Terms: site.Terms{Hours: hours(t, "none")}},
		{Account: account.ID, Station: 6},
		{AccountGroup: "people", Station: 6, Terms: week},
	} {
		h.put(g)
	}
	for station, want := range map[site.StationID]site.Denial{
		1: site.OutsideHours, 2: site.GrantEnded, 3: site.OutsideHours, 4: site.OutsideHours, 5: site.OutsideHours, 7: site.NoGrant, 0: site.NoGrant,
	} {
		if got := h.Denial(account.ID, station); got != want || h.Permits(account.ID, station) {
			t.Errorf("station %d: %s, want %s", station, got, want)
		}
	}
	if got := h.Denial("x", 1); got != site.NoGrant {
		t.Errorf("another account: %s", got)
	}
	closed := h.Closed(account.ID)
	for i, station := range []site.StationID{1, 3, 4} {
		if want := (site.Closed{Station: station, OpensAgain: monday}); len(closed) != 3 || closed[i] != want {
			t.Fatalf("closed %v, want %v", closed, want)
		}
	}
	if closed := h.Closed("x"); closed != nil {
		t.Errorf("another account: %v", closed)
	}
	if n := testing.AllocsPerRun(100, func() { h.Denial(account.ID, 4) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
