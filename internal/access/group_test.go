package access_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// mayOpen is the rule of groups, by lists: a grant of the account or of a group with it, for
// the station or for a group with it.
func mayOpen(grants []site.Grant, groups []site.Group, account site.AccountID, station site.StationID) bool {
	in := func(name site.GroupName) bool {
		return slices.ContainsFunc(groups, func(g site.Group) bool {
			return g.Name == name && (slices.Contains(g.Members, site.Member{Group: name, Account: account}) || slices.Contains(g.Members, site.Member{Group: name, Station: station}))
		})
	}
	return slices.ContainsFunc(grants, func(g site.Grant) bool {
		return (g.Account == account || in(g.AccountGroup)) && (g.Station == station || in(g.StationGroup))
	})
}

// After any changes each account may open what its grants and groups say, at once and after
// a restart.
func TestService_Permits_groups(t *testing.T) {
	h := open(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for a test
	var accounts []site.AccountID
	for i := range 4 {
		accounts = append(accounts, h.add(fmt.Sprintf("a%d@example.test", i)).ID)
	}
	account := func() site.AccountID { return accounts[random.IntN(len(accounts))] }
	station := func() site.StationID { return site.StationID(1 + random.IntN(4)) }
	people := func() site.GroupName { return site.GroupName("people " + strconv.Itoa(random.IntN(3))) }
	places := func() site.GroupName { return site.GroupName("places " + strconv.Itoa(random.IntN(3))) }
	key := func() (k site.GrantKey) {
		if k.AccountGroup = people(); random.IntN(2) == 0 {
			k.Account, k.AccountGroup = account(), ""
		}
		if k.StationGroup = places(); random.IntN(2) == 0 {
			k.Station, k.StationGroup = station(), ""
		}
		return k
	}
	ctx := t.Context()
	for turn := range 600 {
		var err error
		switch random.IntN(8) {
		case 0:
			err = h.ChangeGroup(ctx, admin(), people(), site.OfAccounts, []site.Member{{Account: account()}}, nil)
		case 1:
			err = h.ChangeGroup(ctx, admin(), places(), site.OfStations, []site.Member{{Station: station()}}, nil)
		case 2:
			err = h.ChangeGroup(ctx, admin(), people(), "", []site.Member{{Account: account()}}, []site.Member{{Account: account()}})
		case 3:
			err = h.ChangeGroup(ctx, admin(), places(), "", []site.Member{{Station: station()}}, []site.Member{{Station: station()}})
		case 4, 5:
			k := key()
			_, err = h.PutGrant(ctx, admin(), site.Grant{Account: k.Account, AccountGroup: k.AccountGroup, Station: k.Station, StationGroup: k.StationGroup})
		case 6:
			err = h.RemoveGrant(ctx, admin(), key())
		case 7:
			switch turn % 3 {
			case 0:
				err = h.RemoveGroup(ctx, admin(), people())
			case 1:
				err = h.RemoveGroup(ctx, admin(), places())
			default:
				err = h.changes.Make(ctx, site.Actor{}, func() ([]site.Amendment, error) { return []site.Amendment{{RemoveStation: station()}}, nil })
			}
		}
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		if turn%50 == 0 {
			h.restart()
		}
		for _, a := range accounts {
			var want []site.StationID
			for s := site.StationID(1); s <= 4; s++ {
				may := mayOpen(h.Grants(), h.Groups(), a, s)
				if may {
					want = append(want, s)
				}
				if h.Permits(a, s) != may {
					t.Fatalf("turn %d: %s, station %d: want %v", turn, a, s, may)
				}
			}
			if got := h.Granted(a); !slices.Equal(got, want) {
				t.Fatalf("turn %d: granted %v, want %v", turn, got, want)
			}
		}
	}
	h.agree()
}

func TestService_groups_refused(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	ctx := t.Context()
	h.ok(h.ChangeGroup(ctx, admin(), "people", site.OfAccounts, nil, nil))
	h.ok(h.ChangeGroup(ctx, admin(), "people", site.OfStations, nil, nil)) // adds nothing
	h.is(h.ChangeGroup(ctx, admin(), "doors", site.OfStations, []site.Member{{Account: account.ID}}, nil), fault.Invalid)
	h.is(h.ChangeGroup(ctx, admin(), "people", "", []site.Member{{Station: 7}}, nil), fault.Invalid)
	h.is(h.ChangeGroup(ctx, admin(), "people", "", []site.Member{{Account: "x"}}, nil), fault.NotFound)
	h.is(h.ChangeGroup(ctx, admin(), "doors", "", nil, nil), fault.NotFound)
	h.is(h.RemoveGroup(ctx, admin(), "doors"), fault.NotFound)
	for _, g := range []site.Grant{{AccountGroup: "doors", Station: 7}, {AccountGroup: "people", StationGroup: "people"}, {Account: "x", StationGroup: "people"}} {
		_, err := h.PutGrant(ctx, admin(), g)
		h.is(err, fault.NotFound)
	}
	for _, g := range []site.Grant{{Account: account.ID, AccountGroup: "people", Station: 7}, {AccountGroup: "people", Station: 7, StationGroup: "doors"}, {AccountGroup: "people"}} {
		_, err := h.PutGrant(ctx, admin(), g)
		h.is(err, fault.Invalid)
	}
	for i := range site.MaxGroups - 1 {
		h.ok(h.ChangeGroup(ctx, admin(), site.GroupName("g"+strconv.Itoa(i)), site.OfStations, nil, nil))
	}
	h.is(h.ChangeGroup(ctx, admin(), "one more", site.OfStations, nil, nil), fault.Conflict)
	h.store.fail("AddMember", errDisk)
	h.is(h.ChangeGroup(ctx, admin(), "people", "", []site.Member{{Account: account.ID}}, nil), fault.Unavailable)
	if group, _ := h.Group("people"); len(group.Members) != 0 {
		t.Error("what could not be stored holds")
	}
	h.store.fail("AddMember", nil)
	h.agree()
}

// Each change of a group is a record that names who and what.
func TestService_groups_records(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	ctx := t.Context()
	h.ok(h.ChangeGroup(ctx, admin(), "people", site.OfAccounts, []site.Member{{Account: account.ID}}, nil))
	h.ok(h.ChangeGroup(ctx, admin(), "people", "", []site.Member{{Account: account.ID}}, nil)) // no change
	h.ok(h.ChangeGroup(ctx, admin(), "doors", site.OfStations, []site.Member{{Station: 7}}, nil))
	h.put(site.Grant{AccountGroup: "people", StationGroup: "doors", Terms: site.Terms{Holidays: hours(t, "none")}})
	h.put(site.Grant{AccountGroup: "people", Station: 7})
	h.put(site.Grant{Account: account.ID, StationGroup: "doors"})
	h.ok(h.RemoveGrant(ctx, admin(), site.GrantKey{AccountGroup: "people", Station: 7}))
	h.ok(h.ChangeGroup(ctx, admin(), "people", "", nil, []site.Member{{Account: account.ID}}))
	h.ok(h.RemoveGroup(ctx, admin(), "doors"))
	var got []string
	for _, r := range h.store.of(site.KindGroupAdded, site.KindGroupChanged, site.KindGroupRemoved, site.KindGranted, site.KindUngranted) {
		got = append(got, fmt.Sprint(r.Kind, "|", r.Email, "|", r.Station, "|", r.Detail))
	}
	want := []string{
		"group-added||0|people, a group of accounts",
		"group-changed|porter@example.test|0|added to the group people",
		"group-added||0|doors, a group of stations",
		"group-changed||7|added to the group doors",
		"granted||0|group people, stations of doors: on holidays none",
		"granted||7|group people: without limits",
		"granted|porter@example.test|0|stations of doors: without limits",
		"ungranted||7|group people",
		"group-changed|porter@example.test|0|removed from the group people",
		"group-removed||0|doors, with its grants",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A holiday holds at once, until it is removed, and with an untrusted clock by the time
// that the clock shows.
func TestService_holidays(t *testing.T) {
	h := open(t) // it is Saturday, 2026-11-21
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 7, Terms: site.Terms{Hours: hours(t, "Sat 00:00-24:00"), Holidays: hours(t, "none")}})
	may := func(want bool) {
		t.Helper()
		if h.Permits(account.ID, 7) != want {
			t.Errorf("want %v", want)
		}
	}
	day := func(text string) []site.Dates {
		d, err := site.ParseDates(text)
		h.ok(err)
		return []site.Dates{d}
	}
	add := func(want int, holidays ...site.Holiday) {
		t.Helper()
		changed, err := h.AddHolidays(t.Context(), admin(), holidays)
		h.ok(err)
		if len(changed) != want {
			t.Errorf("%d have changed, want %d", len(changed), want)
		}
	}
	h.clock.trust(false)
	may(true)
	add(1, site.Holiday{Name: "other", Dates: day("2026-11-20")})
	may(true)
	add(2, site.Holiday{Name: "one", Dates: day("2026-11-21")}, site.Holiday{Name: "every", Dates: day("11-21")}, site.Holiday{Name: "other", Dates: day("2026-11-20")})
	may(false)
	h.restart()
	may(false)
	h.ok(h.RemoveHoliday(t.Context(), admin(), "every"))
	may(false)
	h.ok(h.RemoveHoliday(t.Context(), admin(), "one"))
	h.is(h.RemoveHoliday(t.Context(), admin(), "one"), fault.NotFound)
	may(true)
	h.clock.advance(-24 * time.Hour)
	may(false) // neither a Saturday nor no holiday
	if _, err := h.AddHolidays(t.Context(), admin(), make([]site.Holiday, 3)); err != nil {
		t.Error(err)
	}
	var many []site.Holiday
	for i := range site.MaxHolidays {
		many = append(many, site.Holiday{Name: strconv.Itoa(i), Dates: day("12-25")})
	}
	_, err := h.AddHolidays(t.Context(), admin(), many)
	h.is(err, fault.Conflict)
	long := site.Holiday{Name: "long"}
	for i := range site.MaxHolidayDates + 1 {
		long.Dates = append(long.Dates, day(fmt.Sprintf("%d-01-01", 2001+i))...)
	}
	_, err = h.AddHolidays(t.Context(), admin(), []site.Holiday{long})
	h.is(err, fault.Conflict)
	h.agree()
}

func TestService_Permits_allocations(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	ctx := t.Context()
	for i := range 10 {
		people, places := site.GroupName("people "+strconv.Itoa(i)), site.GroupName("places "+strconv.Itoa(i))
		h.ok(h.ChangeGroup(ctx, admin(), people, site.OfAccounts, []site.Member{{Account: account.ID}}, nil))
		h.ok(h.ChangeGroup(ctx, admin(), places, site.OfStations, []site.Member{{Station: 7}}, nil))
		h.put(site.Grant{AccountGroup: people, StationGroup: places, Terms: site.Terms{Hours: hours(t, "Mon 08:00-09:00"), Holidays: hours(t, "none")}})
	}
	if n := testing.AllocsPerRun(100, func() { h.Permits(account.ID, 7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
