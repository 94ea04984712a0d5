package sqlite_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// grouped is a database with two groups, a holiday and a grant of each form.
func grouped(t *testing.T) (*sqlite.DB, string) {
	t.Helper()
	db, path := enrolled(t, 2)
	holidays, _ := site.ParseSchedule("none")
	dates, _ := site.ParseDates("12-24..12-26")
	amend(t, db,
		site.Amendment{AddAccount: &site.Account{ID: "a-1", Email: "a@b.test", Created: site.At(at(1000))}},
		site.Amendment{AddGroup: &site.Group{Name: "people", Kind: site.OfAccounts}},
		site.Amendment{AddGroup: &site.Group{Name: "doors", Kind: site.OfStations}},
		site.Amendment{AddMember: &site.Member{Group: "people", Account: "a-1"}},
		site.Amendment{AddMember: &site.Member{Group: "doors", Station: 1}},
		site.Amendment{AddMember: &site.Member{Group: "doors", Station: 2}},
		site.Amendment{PutHoliday: &site.Holiday{Name: "Christmas", Dates: []site.Dates{dates}}},
		site.Amendment{PutGrant: &site.Grant{Account: "a-1", Station: 1}},
		site.Amendment{PutGrant: &site.Grant{Account: "a-1", StationGroup: "doors", Terms: site.Terms{Holidays: holidays}}},
		site.Amendment{PutGrant: &site.Grant{AccountGroup: "people", Station: 1}},
		site.Amendment{PutGrant: &site.Grant{AccountGroup: "people", StationGroup: "doors", Terms: site.Terms{From: site.At(at(5))}}},
		site.Amendment{PutGrant: &site.Grant{AccountGroup: "people", StationGroup: "doors"}})
	return db, path
}

func amend(t *testing.T, db *sqlite.DB, all ...site.Amendment) {
	t.Helper()
	for i := range all {
		all[i].Record = record(site.KindGranted)
	}
	if err := db.Amend(t.Context(), nil, all); err != nil {
		t.Fatal(err)
	}
}

// schedules is what a start reads of groups, holidays and grants.
type schedules struct {
	groups   []site.Group
	holidays []site.Holiday
	grants   map[site.GrantKey]string // their hours on holidays
}

func loadSchedules(t *testing.T, db *sqlite.DB) (s schedules) {
	t.Helper()
	all, err := db.LoadAccess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.groups, s.holidays = all.Groups, all.Holidays
	s.grants = map[site.GrantKey]string{}
	for _, g := range all.Grants {
		s.grants[g.Key()] = g.Holidays.String()
	}
	if len(all.Grants) != len(s.grants) {
		t.Errorf("a grant is there twice: %+v", all.Grants)
	}
	return s
}

func TestDB_LoadAccess_groups(t *testing.T) {
	db, path := grouped(t)
	dates, _ := site.ParseDates("12-24..12-26")
	want := schedules{
		groups: []site.Group{
			{Name: "doors", Kind: site.OfStations, Members: []site.Member{{Group: "doors", Station: 1}, {Group: "doors", Station: 2}}},
			{Name: "people", Kind: site.OfAccounts, Members: []site.Member{{Group: "people", Account: "a-1"}}},
		},
		holidays: []site.Holiday{{Name: "Christmas", Dates: []site.Dates{dates}}},
		grants: map[site.GrantKey]string{
			{Account: "a-1", Station: 1}:                    "",
			{Account: "a-1", StationGroup: "doors"}:         "none",
			{AccountGroup: "people", Station: 1}:            "",
			{AccountGroup: "people", StationGroup: "doors"}: "",
		},
	}
	if got := loadSchedules(t, db); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_ = db.Close()
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	copied := filepath.Join(t.TempDir(), "copy.db") // as a backup takes it
	if err := db.Snapshot(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	snapshot := open(t, copied, newClock())
	defer func() { _ = snapshot.Close() }()
	if got := loadSchedules(t, snapshot); !reflect.DeepEqual(got, want) {
		t.Errorf("a snapshot has %+v, want %+v", got, want)
	}
}

// What is removed takes its memberships and grants along: a station that is enrolled later
// under the same id inherits nothing.
func TestDB_Amend_removesMembers(t *testing.T) {
	db, _ := grouped(t)
	defer func() { _ = db.Close() }()
	amend(t, db, site.Amendment{RemoveStation: 1}, site.Amendment{RemoveMember: &site.Member{Group: "doors", Station: 2}})
	addStation(t, db, 1)
	if got := loadSchedules(t, db); len(got.groups[0].Members) != 0 || len(got.grants) != 2 {
		t.Errorf("left are %+v", got)
	}
	amend(t, db, site.Amendment{RemoveAccount: "a-1"}, site.Amendment{RemoveHoliday: "Christmas"})
	if got := loadSchedules(t, db); len(got.groups[1].Members) != 0 || len(got.grants) != 1 || len(got.holidays) != 0 {
		t.Errorf("left are %+v", got)
	}
	amend(t, db, site.Amendment{RemoveGroup: "people"})
	if got := loadSchedules(t, db); len(got.groups) != 1 || len(got.grants) != 0 {
		t.Errorf("left are %+v", got)
	}
	amend(t, db, // what is gone already is no error
		site.Amendment{RemoveGroup: "people"}, site.Amendment{RemoveHoliday: "Christmas"}, site.Amendment{RemoveToken: "t-3"},
		site.Amendment{RemoveMember: &site.Member{Group: "doors", Station: 2}}, site.Amendment{RemoveMember: &site.Member{Group: "doors", Account: "a-1"}},
		site.Amendment{RemoveGrant: &site.GrantKey{AccountGroup: "people", StationGroup: "doors"}})
	for name, a := range map[string]site.Amendment{
		"nobody":  {AddMember: &site.Member{Group: "people", Account: "a-1"}},
		"no such": {PutGrant: &site.Grant{AccountGroup: "people", Station: 1}},
	} {
		a.Record = record(site.KindGranted)
		if err := db.Amend(t.Context(), nil, []site.Amendment{a}); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A database whose groups, grants or holidays are damaged is replaced by the copy, which
// has them all.
func TestOpen_damagedGroups(t *testing.T) {
	for _, table := range []string{"site_group", "group_account", "group_station", "holiday", "access_grant"} {
		db, path := grouped(t)
		want := loadSchedules(t, db)
		_ = db.Close()
		closeDB(t, sound(t, path))            // writes the copy
		tamper(t, path, "DELETE FROM "+table) // as a bit that changes where no checksum is
		db = sound(t, path)
		if got := loadSchedules(t, db); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", table, got, want)
		}
		_ = db.Close()
	}
}

// An upgrade keeps the grants of the former schema.
func TestOpen_formerGrants(t *testing.T) {
	db, path := enrolled(t, 2)
	amend(t, db, site.Amendment{AddAccount: &site.Account{ID: "a-1", Email: "a@b.test"}})
	_ = db.Close()
	tamper(t, path, "DROP TABLE IF EXISTS next_version; DROP TABLE battery; "+formerGrants+
		"INSERT INTO access_grant VALUES ('a-1', 2, 5, 7, 'Mon 08:00-09:00'), ('a-1', 1, 0, 0, ''); PRAGMA user_version = 6")
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	all, err := db.LoadAccess(t.Context())
	hours, _ := site.ParseSchedule("Mon 08:00-09:00")
	want := []site.Grant{{Account: "a-1", Station: 1}, {Account: "a-1", Station: 2, Terms: site.Terms{From: site.At(at(5)), Until: site.At(at(7)), Hours: hours}}}
	if err != nil || !reflect.DeepEqual(all.Grants, want) {
		t.Errorf("got %+v, %v", all.Grants, err)
	}
}
