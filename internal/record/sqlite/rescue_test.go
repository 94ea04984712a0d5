package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse/internal/door/station"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// flip flips bits of one byte of a file.
func flip(t *testing.T, path string, at int64, bits byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= bits
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// A flipped bit of the header that matters: the gateway starts, knows who may open what,
// and can write.
func TestOpen_damagedHeader(t *testing.T) {
	const writeVersion, readVersion, schemaVersion = 18, 19, 60 // offsets; see fileformat2.html
	for _, flipped := range []struct {
		at   int64
		bits byte
	}{{writeVersion, 1}, {writeVersion, 0x80}, {readVersion, 1}, {schemaVersion, 0x80}, {schemaVersion + 3, 1}, {schemaVersion + 3, 0x40}} {
		path := inUse(t, 20)
		flip(t, path, flipped.at, flipped.bits)
		db := sound(t, path)
		all, err := db.LoadAccess(t.Context())
		if err != nil || len(all.Accounts) != 1 {
			t.Errorf("byte %d ^ %x: accounts %v, %v", flipped.at, flipped.bits, all.Accounts, err)
		}
		if err := db.Keep(t.Context(), record(site.KindUnlock)); err != nil {
			t.Errorf("byte %d ^ %x: %v; %q", flipped.at, flipped.bits, err, db.Rescued())
		}
		closeDB(t, db)
	}
}

// A copy whose version was changed does not prevent a rescue.
func TestOpen_damagedAndCopyOfAnotherVersion(t *testing.T) {
	for _, bits := range []byte{1, 0x40} {
		path := inUse(t, 20)
		flip(t, path+".copy", 63, bits)
		markUnsound(t, path)
		db := sound(t, path)
		all, err := db.LoadAccess(t.Context())
		if db.Rescued() == "" || err != nil || len(all.Accounts) != 1 {
			t.Errorf("accounts %v, %v; %q", all.Accounts, err, db.Rescued())
		}
		closeDB(t, db)
	}
}

func markUnsound(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path+".unsound", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A disk on which nothing can be set aside keeps no door shut for a page that a start
// does not need; the rescue follows when it can.
func TestOpen_rescueFails(t *testing.T) {
	path := inUse(t, 20)
	markUnsound(t, path)
	blocking := path + ".rescued.partial"
	if err := os.MkdirAll(blocking+"/below", 0o700); err != nil {
		t.Fatal(err)
	}
	db := sound(t, path)
	all, err := db.LoadAccess(t.Context())
	if db.Rescued() != "" || err != nil || len(all.Accounts) != 1 {
		t.Errorf("accounts %v, %v; %q", all.Accounts, err, db.Rescued())
	}
	closeDB(t, db)
	if err := os.RemoveAll(blocking); err != nil {
		t.Fatal(err)
	}
	db = sound(t, path)
	if db.Rescued() == "" {
		t.Error("the database was not set aside when it could be")
	}
	closeDB(t, db)
}

// The time floor goes back no further than what is lost with the newest records.
func TestOpen_damagedEndKeepsFloor(t *testing.T) {
	const minute = 60_000 // ms
	path := inUse(t, 10)
	db, clock := sound(t, path), newClock()
	db.UseClock(clock)
	for range 1000 {
		clock.ms.Add(minute)
		db.AppendLater(site.Record{Kind: site.KindUnlock, Facts: site.Facts{Detail: strings.Repeat("x", 200)}})
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := db.Floor()
	closeDB(t, db)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(len(content) / page)
	for content[(last-1)*page] != 0x0d {
		last--
	}
	spoil(t, path, last)
	db = sound(t, path)
	if lost := before.Sub(db.Floor()).Minutes(); db.Rescued() == "" || lost > 30 {
		t.Errorf("the floor went back by %v minutes; %q", lost, db.Rescued())
	}
	closeDB(t, db)
}

// Without a copy, a table is read up to its damaged page from both ends.
func TestOpen_damagedTableWithoutCopy(t *testing.T) {
	const accounts = 200
	path := inUse(t, 10)
	db := sound(t, path)
	var all []site.Amendment
	for i := range accounts {
		all = append(all, site.Amendment{Record: record(site.KindAccountAdded), AddAccount: &site.Account{
			ID: site.AccountID(fmt.Sprintf("b-%03d", i)), Email: site.Email(fmt.Sprintf("b%03d@example.test", i)), Password: site.Secret(strings.Repeat("p", 100)),
		}})
	}
	if err := db.Amend(t.Context(), nil, all); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path + ".copy")
	}
	if err != nil {
		t.Fatal(err)
	}
	middle := bytes.Index(content, []byte("b-100b100@example.testppp")) // a row, not one of an index
	spoil(t, path, int64(middle/page+1))
	db = sound(t, path)
	stored, err := db.LoadAccess(t.Context())
	left := stored.Accounts
	if err != nil || len(left) < accounts*3/4 || len(left) >= accounts {
		t.Errorf("%d of %d accounts are left, %v; %q", len(left), accounts, err, db.Rescued())
	}
	closeDB(t, db)
}

// A copy that cannot be written leaves nothing that takes room on a full disk.
func TestDB_copyFails(t *testing.T) {
	path := inUse(t, 10)
	if err := os.Remove(path + ".copy"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(path+".copy/below", 0o700); err != nil {
		t.Fatal(err)
	}
	closeDB(t, sound(t, path)) // writes what is due
	if _, err := os.Stat(path + ".copy.partial"); !os.IsNotExist(err) {
		t.Error("a part of the copy is left:", err)
	}
}

// A grant that replaces a wider one reaches the copy as soon as a removal does.
func TestDB_Amend_grantReachesCopySoon(t *testing.T) {
	path := inUse(t, 10)
	if err := os.Remove(path + ".copy"); err != nil {
		t.Fatal(err)
	}
	var copies atomic.Int64
	db, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: path, Copy: path + ".copy", Boot: "boot-2", Logger: slog.New(slog.DiscardHandler), Copied: func(error) { copies.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	db.UseClock(newClock())
	await.Until(t, "the copy is written", func() bool { return copies.Load() == 1 })
	amend := func(a site.Amendment) {
		t.Helper()
		a.Record = record(site.KindGranted)
		if err := db.Amend(t.Context(), nil, []site.Amendment{a}); err != nil {
			t.Fatal(err)
		}
	}
	amend(site.Amendment{AddStation: &site.Station{ID: 1042, Name: "North", Locks: 1, Token: "token"}})
	if revoked, changed := db.CopyDue(); revoked || !changed {
		t.Error("a new station revokes access")
	}
	amend(site.Amendment{PutGrant: &site.Grant{Account: "a-1", Station: 1042}})
	if revoked, _ := db.CopyDue(); !revoked && copies.Load() == 1 {
		t.Error("a grant that may replace a wider one waits for an hour")
	}
	closeDB(t, db)
	if copies.Load() < 2 {
		t.Error("what was due was not written at the end")
	}
}

// A rescue keeps the states of the stations. Damage of these alone takes nothing from who
// may open what, of which the copy may know less.
func TestOpen_rescuedStates(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		path := inUse(t, 10)
		db := sound(t, path)
		addStation(t, db, 1)
		save(t, db, locked(1, site.Locked, at(2000)))
		closeDB(t, db)
		former, err := os.ReadFile(path + ".copy")
		if err != nil {
			t.Fatal(err)
		}
		db = sound(t, path)
		addStation(t, db, 2)
		closeDB(t, db)
		if err := os.WriteFile(path+".copy", former, 0o600); err != nil { // up to an hour old
			t.Fatal(err)
		}
		if damaged {
			spoil(t, path, rootOf(t, path, "station_states"))
		}
		markUnsound(t, path)
		db = sound(t, path)
		stations, states, err := db.LoadStations(t.Context())
		if err != nil || db.Rescued() == "" || len(stations) != 2 {
			t.Errorf("damaged %v: stations %v, %v; %q", damaged, stations, err, db.Rescued())
		}
		if !damaged && (len(states) == 0 || len(states[0].Locks) == 0 || states[0].Locks[0].Status != site.Locked) {
			t.Errorf("the states are %+v", states)
		}
		closeDB(t, db)
	}
}

// rootOf returns the first page of a table.
func rootOf(t *testing.T, path, table string) (number int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err == nil {
		err = errors.Join(db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = ?", table).Scan(&number), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// Where the end of the journal is on a damaged page, the newest record shows it: the copy
// may be much older, and numbers that the cloud knows must not be used again.
func TestOpen_damagedEndsOldCopy(t *testing.T) {
	const records = 2000
	path := inUse(t, records)
	db := sound(t, path)
	if _, err := db.Prune(t.Context(), journal.Retention{MaxBytes: 1, Held: 1000, HardBytes: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	spoil(t, path, rootOf(t, path, "journal_ends"))
	db = sound(t, path)
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := db.Verify(t.Context()); db.Rescued() == "" || err != nil || v.Broken != 0 || v.Last < records || v.Last > records+sqlite.EndsLag || v.Lost > sqlite.EndsLag {
		t.Errorf("verdict %+v, %v; %q", v, err, db.Rescued())
	}
	for _, r := range mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindRecordsLost}}) {
		if r.From > 0 && r.From <= 1000 {
			t.Errorf("%d to %d count as lost", r.From, r.To) // by damage: they were removed
		}
	}
	closeDB(t, db)
}

// The history of batteries survives a rescue, whether the accounts are those of the
// database or of the copy, which is written without it.
func TestOpen_rescueCarriesBatteries(t *testing.T) {
	for _, table := range []string{"", "account"} {
		path := inUse(t, 20)
		db := sound(t, path)
		addStation(t, db, 7)
		want := []station.BatteryPoint{{Day: 20_000, Volts: 3.7}, {Day: 20_001, Volts: 3.6}}
		for _, p := range want {
			save(t, db, station.SavedState{Station: 7, Enrolled: at(1000), Point: p})
		}
		closeDB(t, db)
		if table != "" {
			spoil(t, path, rootOf(t, path, table))
		}
		markUnsound(t, path)
		db = sound(t, path)
		got, err := db.Battery(t.Context(), 7)
		if err != nil || db.Rescued() == "" || !slices.Equal(got, want) {
			t.Errorf("damaged %q: %+v, %v; %q", table, got, err, db.Rescued())
		}
		closeDB(t, db)
	}
}
