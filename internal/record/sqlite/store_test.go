package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

var (
	_ access.Store  = (*sqlite.DB)(nil)
	_ station.Store = (*sqlite.DB)(nil)
	_ journal.Store = (*sqlite.DB)(nil)
)

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func record(kind site.Kind) site.Record { return site.Record{Kind: kind} }

// Everything that is stored comes back as it was, from a reopened file.
func TestDB_store_roundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	ctx := t.Context()
	hours, err := site.ParseSchedule("Mon-Fri 08:00-18:00")
	if err != nil {
		t.Fatal(err)
	}
	volts := 3.71
	account := site.Account{ID: "a-1", Email: "porter@example.test", Admin: true, Password: "phc", Created: site.At(at(1000))}
	gate := site.Station{ID: 1042, Name: "North", Locks: 2, Token: "tok-1042", Secret: site.SecretHash{Salt: [16]byte{1}, Sum: [32]byte{2}}, Enrolled: at(2000)}
	session := site.Session{ID: "s-1", Account: "a-1", Created: site.At(at(3000)), Expires: site.At(at(4000)), ClockTrusted: true, Remote: "192.0.2.1", Client: "curl", Used: site.At(at(3500))}
	grant := site.Grant{Account: "a-1", Station: 1042, Terms: site.Terms{From: site.At(at(5000)), Hours: hours}}
	state := station.SavedState{
		Station: 1042, BatteryVoltage: &volts, Firmware: "1.4.2", ByResult: true, LastConnection: at(6000),
		Locks: []site.Lock{{ID: 1, Status: site.Locked, LastUpdated: site.At(at(7000))}, {ID: 2, Status: site.Unknown}},
	}
	for what, err := range map[string]error{
		"account": db.Amend(ctx, nil, []site.Amendment{{AddAccount: &account, Record: record(site.KindAccountAdded)}}),
		"station": db.Amend(ctx, nil, []site.Amendment{{AddStation: &gate, Record: record(site.KindStationAdded)}}),
	} {
		if err != nil {
			t.Fatal(what, err)
		}
	}
	if err := db.AddSession(ctx, session, [32]byte{}, record(site.KindLogin)); err != nil {
		t.Fatal(err)
	}
	if err := db.Amend(ctx, nil, []site.Amendment{{PutGrant: &grant, Record: record(site.KindGranted)}}); err != nil {
		t.Fatal(err)
	}
	saved := state
	saved.Enrolled = gate.Enrolled
	if err := db.SaveStates(ctx, []station.SavedState{saved, {Station: 77}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	stored, err := db.LoadAccess(ctx)
	accounts, sessions, grants := stored.Accounts, stored.Sessions, stored.Grants
	if err != nil {
		t.Fatal(err)
	}
	stations, states, err := db.LoadStations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]any{
		"accounts": {accounts, []site.Account{account}},
		"sessions": {sessions, []site.Session{session}},
		"grants":   {grants, []site.Grant{grant}},
		"stations": {stations, []site.Station{gate}},
		"states":   {states, []station.SavedState{state}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %+v, want %+v", what, pair[0], pair[1])
		}
	}
	mustVerify(t, db, 4)
}

// Each change that finds nothing, or clashes, says so and leaves no record.
func TestDB_store_refusals(t *testing.T) {
	db, _ := fresh(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Amend(ctx, nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "a@example.test"}, Record: record(site.KindAccountAdded)}}))
	must(db.Amend(ctx, nil, []site.Amendment{{AddStation: &site.Station{ID: 1, Token: "one"}, Record: record(site.KindStationAdded)}}))
	must(db.Amend(ctx, nil, []site.Amendment{{AddStation: &site.Station{ID: 2, Token: "two"}, Record: record(site.KindStationAdded)}}))
	for name, c := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"account id taken":   {db.Amend(ctx, nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "b@example.test"}, Record: record("x")}}), fault.Conflict},
		"e-mail taken":       {db.Amend(ctx, nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-2", Email: "a@example.test"}, Record: record("x")}}), fault.Conflict},
		"no such account":    {db.Amend(ctx, nil, []site.Amendment{{UpdateAccount: &site.Account{ID: "a-9"}, Record: record("x")}}), fault.NotFound},
		"upgrade no account": {db.UpgradePassword(ctx, "a-9", "h", "i"), fault.NotFound},
		"station id taken":   {db.Amend(ctx, nil, []site.Amendment{{AddStation: &site.Station{ID: 1, Token: "three"}, Record: record("x")}}), fault.Conflict},
		"token taken":        {db.Amend(ctx, nil, []site.Amendment{{AddStation: &site.Station{ID: 3, Token: "one"}, Record: record("x")}}), fault.Conflict},
		"token of another":   {db.Amend(ctx, nil, []site.Amendment{{UpdateStation: &site.Station{ID: 2, Token: "one"}, Record: record("x")}}), fault.Conflict},
		"update no station":  {db.Amend(ctx, nil, []site.Amendment{{UpdateStation: &site.Station{ID: 9, Token: "nine"}, Record: record("x")}}), fault.NotFound},
		"remove no station":  {db.Amend(ctx, nil, []site.Amendment{{RemoveStation: 9, Record: record("x")}}), fault.NotFound},
		"secret of none":     {db.Amend(ctx, nil, []site.Amendment{{DropSecret: 9, Record: record("x")}}), fault.NotFound},
		"mode of none":       {db.Amend(ctx, nil, []site.Amendment{{LimitStation: &site.StationLimit{Station: 9}, Record: record("x")}}), fault.NotFound},
		"grant to nobody":    {db.Amend(ctx, nil, []site.Amendment{{PutGrant: &site.Grant{Account: "a-9", Station: 1}, Record: record("x")}}), fault.NotFound},
		"grant of nothing":   {db.Amend(ctx, nil, []site.Amendment{{PutGrant: &site.Grant{Account: "a-1", Station: 9}, Record: record("x")}}), fault.NotFound},
		"session of nobody":  {db.AddSession(ctx, site.Session{ID: "s", Account: "a-9"}, [32]byte{}, record("x")), fault.NotFound},
	} {
		if !fault.Is(c.err, c.kind) {
			t.Errorf("%s: %v, want %v", name, c.err, c.kind)
		}
	}
	mustVerify(t, db, 3)
}

// A role is changed without the password, and an account is removed that is gone already.
func TestDB_Amend_account(t *testing.T) {
	db, _ := fresh(t)
	account := site.Account{ID: "a-1", Email: "a@example.test", Admin: true, Password: "phc"}
	amend(t, db, site.Amendment{AddAccount: &account})
	amend(t, db, site.Amendment{UpdateAccount: &site.Account{ID: "a-1", Email: "a@example.test"}})
	stored, err := db.LoadAccess(t.Context())
	if err != nil || len(stored.Accounts) != 1 || stored.Accounts[0].Admin || stored.Accounts[0].Password != "phc" {
		t.Errorf("%+v, %v", stored.Accounts, err)
	}
	amend(t, db, site.Amendment{RemoveAccount: "a-1"}, site.Amendment{RemoveAccount: "a-1"})
}

func TestDB_store_removingCascades(t *testing.T) {
	db, _ := fresh(t)
	ctx := t.Context()
	steps := []error{
		db.Amend(ctx, nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "a@example.test"}, Record: record(site.KindAccountAdded)}}),
		db.Amend(ctx, nil, []site.Amendment{{AddStation: &site.Station{ID: 1, Token: "one"}, Record: record(site.KindStationAdded)}}),
		db.Amend(ctx, nil, []site.Amendment{{AddStation: &site.Station{ID: 2, Token: "two"}, Record: record(site.KindStationAdded)}}),
		db.Amend(ctx, nil, []site.Amendment{{PutGrant: &site.Grant{Account: "a-1", Station: 1}, Record: record(site.KindGranted)}}),
		db.Amend(ctx, nil, []site.Amendment{{PutGrant: &site.Grant{Account: "a-1", Station: 2}, Record: record(site.KindGranted)}}),
		db.AddSession(ctx, site.Session{ID: "s-1", Account: "a-1", Refresh: [32]byte{1}, Expires: site.At(at(10))}, [32]byte{}, record(site.KindLogin)),
		db.AddSession(ctx, site.Session{ID: "s-2", Account: "a-1", Refresh: [32]byte{2}, Expires: site.At(at(20))}, [32]byte{}, record(site.KindLogin)),
		db.AddSession(ctx, site.Session{ID: "s-3", Account: "a-1", Refresh: [32]byte{3}, Expires: site.At(at(30))}, [32]byte{3}, record(site.KindLogin)),
		db.DropExpired(ctx, at(20), site.Uses{}),
		db.RebaseSessions(ctx, map[site.SessionID]time.Time{"s-3": at(300), "gone": at(1)}),
		db.Amend(ctx, nil, []site.Amendment{{RemoveStation: 1, Record: record(site.KindStationRemoved)}}),
	}
	for i, err := range steps {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	stored, err := db.LoadAccess(ctx)
	grants, sessions := stored.Grants, stored.Sessions
	if err != nil || len(grants) != 1 || grants[0].Station != 2 || len(sessions) != 1 || sessions[0].ID != "s-3" || !sessions[0].Expires.Equal(at(300)) || !sessions[0].ClockTrusted {
		t.Errorf("grants %+v, sessions %+v, %v", grants, sessions, err)
	}
	if len(stored.Devices) != 1 || !stored.Devices[0].Until.Equal(at(300)) {
		t.Errorf("devices %+v, want that of s-3 to follow it", stored.Devices)
	}
	if err := db.Amend(ctx, nil, []site.Amendment{{RemoveAccount: "a-1", Record: record(site.KindAccountRemoved)}}); err != nil {
		t.Fatal(err)
	}
	stored, err = db.LoadAccess(ctx)
	if err != nil || len(stored.Grants)+len(stored.Sessions) != 0 {
		t.Errorf("after removing the account: grants %+v, sessions %+v, %v", stored.Grants, stored.Sessions, err)
	}
}

// Tokens come back over a restart; a station that is removed leaves their scopes, and a token
// that is removed is gone.
func TestDB_tokens(t *testing.T) {
	db, path := fresh(t)
	ctx := t.Context()
	one := site.Token{
		ID: "t-1", Name: "one", Sum: [32]byte{1}, Created: site.At(at(1)), Until: site.At(at(9)),
		Scope: site.Scope{Read: true, Unlock: []site.StationID{1, 2}},
	}
	all := site.Token{ID: "t-2", Name: "all", Sum: [32]byte{2}, Created: site.At(at(2)), Scope: site.Scope{UnlockAll: true}}
	err := db.Amend(ctx, nil, []site.Amendment{
		{AddStation: &site.Station{ID: 1, Token: "one"}, Record: record(site.KindStationAdded)},
		{AddStation: &site.Station{ID: 2, Token: "two"}, Record: record(site.KindStationAdded)},
		{AddToken: &one, Record: record(site.KindTokenAdded)},
		{AddToken: &all, Record: record(site.KindTokenAdded)},
		{RemoveStation: 1, Record: record(site.KindStationRemoved)},
		{AddStation: &site.Station{ID: 1, Token: "new"}, Record: record(site.KindStationAdded)},
	})
	if err := errors.Join(err, db.DropExpired(ctx, at(20), site.Uses{Tokens: map[site.AccountID]time.Time{"t-2": at(5), "gone": at(5)}}), db.Close()); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	one.Scope.Unlock, all.Scope.Unlock, all.Used = []site.StationID{2}, []site.StationID{}, site.At(at(5))
	stored, err := db.LoadAccess(ctx)
	tokens := stored.Tokens
	slices.SortFunc(tokens, func(a, b site.Token) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if want := []site.Token{one, all}; err != nil || !reflect.DeepEqual(tokens, want) {
		t.Errorf("%+v, want %+v, %v", tokens, want, err)
	}
	for name, c := range map[string]struct {
		change site.Amendment
		kind   fault.Kind
	}{
		"name taken": {site.Amendment{AddToken: &site.Token{ID: "t-3", Name: "all"}}, fault.Conflict},
		"no station": {site.Amendment{AddToken: &site.Token{ID: "t-3", Name: "x", Scope: site.Scope{Unlock: []site.StationID{9}}}}, fault.NotFound},
		"remove":     {site.Amendment{RemoveToken: "t-1"}, fault.KindOf(nil)},
	} {
		c.change.Record = record(site.KindTokenRemoved)
		if err := db.Amend(ctx, nil, []site.Amendment{c.change}); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stored, err := db.LoadAccess(ctx); err != nil || len(stored.Tokens) != 1 || stored.Tokens[0].ID != "t-2" {
		t.Errorf("then %+v, %v", stored.Tokens, err)
	}
}

// The copy is out of date when something expired, and only then.
func TestDB_DropExpired_version(t *testing.T) {
	db, _ := fresh(t)
	s := site.Session{ID: "s-1", Account: "a-1", Refresh: [32]byte{1}, Expires: site.At(at(10)), Remote: "192.0.2.1"}
	if err := errors.Join(db.Amend(t.Context(), nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "a@example.test"}, Record: record(site.KindAccountAdded)}}),
		db.AddSession(t.Context(), s, [32]byte{}, record(site.KindLogin))); err != nil {
		t.Fatal(err)
	}
	uses := site.Uses{Sessions: map[site.SessionID]time.Time{"s-1": at(7), "gone": at(8)}}
	for _, step := range []struct {
		now     int64
		changes bool
	}{{9, false}, {10, true}, {11, false}} {
		before, _ := db.AccessVersion(t.Context())
		if err := db.DropExpired(t.Context(), at(step.now), uses); err != nil {
			t.Fatal(err)
		}
		if stored, err := db.LoadAccess(t.Context()); err != nil || step.now == 9 && !stored.Sessions[0].Used.Equal(at(7)) {
			t.Errorf("at %d: %+v, %v", step.now, stored.Sessions, err)
		}
		after, err := db.AccessVersion(t.Context())
		if err != nil || before == "" || (after != before) != step.changes {
			t.Errorf("at %d: from %q to %q, %v; want a change: %t", step.now, before, after, err, step.changes)
		}
	}
}

// The devices of logins outlive their sessions, until those would have expired; of an
// account the newest are kept.
func TestDB_LoadAccess_devices(t *testing.T) {
	db, _, _ := filled(t)
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	if err := db.Amend(ctx, nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "porter@example.test"}, Record: record(site.KindAccountAdded)}}); err != nil {
		t.Fatal(err)
	}
	device := func(n int64) [32]byte { return [32]byte([]byte(fmt.Sprintf("device %025d", n))) }
	add := func(n, expires int64) {
		t.Helper()
		s := site.Session{ID: "k", Account: "a-1", Expires: site.At(at(expires))}
		if err := errors.Join(db.AddSession(ctx, s, device(n), record(site.KindLogin)), db.Amend(ctx, nil, []site.Amendment{{EndSessions: []site.SessionID{s.ID}, Record: record(site.KindSessionRevoked)}})); err != nil {
			t.Fatal(err)
		}
	}
	want := func(all ...site.LoginDevice) {
		t.Helper()
		if got, err := db.LoadAccess(ctx); err != nil || !slices.Equal(got.Devices, all) {
			t.Errorf("got %v, %v; want %v", got.Devices, err, all)
		}
	}
	want()
	add(1, 1000)
	add(2, 1500)
	add(1, 2000)
	want(site.LoginDevice{Account: "a-1", Sum: device(1), Until: at(2000)}, site.LoginDevice{Account: "a-1", Sum: device(2), Until: at(1500)})
	if err := db.DropExpired(ctx, at(1500), site.Uses{}); err != nil {
		t.Fatal(err)
	}
	want(site.LoginDevice{Account: "a-1", Sum: device(1), Until: at(2000)})
	for i := range int64(site.MaxLoginDevices) {
		add(100+i, 3000+i)
	}
	if got, err := db.LoadAccess(ctx); err != nil || len(got.Devices) != site.MaxLoginDevices || got.Devices[0].Sum == device(1) {
		t.Errorf("%d devices, %v", len(got.Devices), err)
	}
	if err := db.Amend(ctx, nil, []site.Amendment{{RemoveAccount: "a-1", Record: record(site.KindAccountRemoved)}}); err != nil {
		t.Fatal(err)
	}
	want()
}
