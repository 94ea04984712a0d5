package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// enrolled is a database with stations of two locks, from 1 on.
func enrolled(t *testing.T, n int) (*sqlite.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	for i := 1; i <= n; i++ {
		addStation(t, db, site.StationID(i))
	}
	return db, path
}

func addStation(t *testing.T, db *sqlite.DB, id site.StationID) {
	t.Helper()
	s := site.Station{ID: id, Locks: 2, Token: site.Secret("token of " + id.String()), Enrolled: at(1000)}
	if err := db.Amend(t.Context(), nil, []site.Amendment{{AddStation: &s, Record: record(site.KindStationAdded)}}); err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, db *sqlite.DB, states ...station.SavedState) {
	t.Helper()
	if err := db.SaveStates(t.Context(), states); err != nil {
		t.Fatal(err)
	}
}

// reload returns the states that a start after a kill or a power cut would find.
func reload(t *testing.T, db *sqlite.DB) map[site.StationID]station.SavedState {
	t.Helper()
	_, states, err := db.LoadStations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[site.StationID]station.SavedState)
	for _, s := range states {
		found[s.Station] = s
	}
	return found
}

func locked(id site.StationID, status site.LockStatus, updated time.Time) station.SavedState {
	return station.SavedState{At: updated, Station: id, Enrolled: at(1000), Locks: []site.Lock{{ID: 1, Status: status, LastUpdated: site.At(updated)}, {ID: 2, Status: site.Unknown}}}
}

// A change of a lock is not lost, although the states are saved seldom: its record
// says it. A record that is older than the state changes nothing.
func TestDB_LoadStations_replaysLocks(t *testing.T) {
	db, _ := enrolled(t, 3)
	defer func() { _ = db.Close() }()
	changed := func(id site.StationID, status site.LockStatus) time.Time {
		r := site.Record{Kind: site.KindLockChanged, Facts: site.Facts{Station: id, Lock: "lock-1", Status: status}}
		if err := db.Keep(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		all := mustRead(t, db, journal.Query{})
		return all[len(all)-1].Time.Time
	}
	save(t, db, locked(1, site.Locked, at(1000)))
	first := changed(1, site.Unlocked)
	changed(2, site.Jammed) // nothing was saved of it
	changed(3, site.Unlocked)
	save(t, db, locked(3, site.Locked, first.Add(time.Hour)))
	found := reload(t, db)
	if s := found[1]; len(s.Locks) != 2 || s.Locks[0].Status != site.Unlocked || !s.Locks[0].LastUpdated.Equal(first) || !s.LastConnection.Equal(first) {
		t.Errorf("station 1 is %+v", s)
	}
	if s := found[2]; len(s.Locks) != 1 || s.Locks[0].Status != site.Jammed {
		t.Errorf("station 2 is %+v", s)
	}
	if s := found[3]; s.Locks[0].Status != site.Locked {
		t.Errorf("station 3 is %+v", s)
	}
}

// Doors and alarms come from their records too; an alarm stands once.
func TestDB_LoadStations_replaysDoors(t *testing.T) {
	db, _ := enrolled(t, 2)
	defer func() { _ = db.Close() }()
	held := station.Alarm{Kind: site.KindDoorHeld, Lock: 1, Since: site.At(at(500))}
	saved := locked(1, site.Locked, at(1000))
	saved.Alarms = []station.Alarm{held}
	save(t, db, saved)
	var times []site.Timestamp
	for _, r := range []site.Record{
		{Kind: site.KindDoorOpened, Facts: site.Facts{Station: 1, Lock: "lock-1"}},
		{Kind: site.KindDoorHeld, Facts: site.Facts{Station: 1, Lock: "lock-1"}},
		{Kind: site.KindDoorForced, Facts: site.Facts{Station: 1, Lock: "lock-1"}},
		{Kind: site.KindLockChanged, Facts: site.Facts{Station: 2, Lock: "lock-2", Status: site.Unknown}},
		{Kind: site.KindDoorClosed, Facts: site.Facts{Station: 2, Lock: "lock-2"}},
		{Kind: site.KindStationSilent, Facts: site.Facts{Station: 2}},
	} {
		if err := db.Keep(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		all := mustRead(t, db, journal.Query{})
		times = append(times, all[len(all)-1].Time)
	}
	found := reload(t, db)
	want := []station.Alarm{held, {Kind: site.KindDoorForced, Lock: 1, Since: times[2]}}
	if s := found[1]; !slices.Equal(s.Alarms, want) || s.Locks[0].Status != site.Locked || s.Locks[0].Door != site.DoorOpen || s.Locks[0].DoorSince != times[0] {
		t.Errorf("station 1 is %+v", s)
	}
	want = []station.Alarm{{Kind: site.KindStationSilent, Since: times[5]}}
	lock := site.Lock{ID: 2, Status: site.Unknown, LastUpdated: times[3], Door: site.DoorClosed, DoorSince: times[4]}
	if s := found[2]; !slices.Equal(s.Alarms, want) || !slices.Equal(s.Locks, []site.Lock{lock}) {
		t.Errorf("station 2 is %+v", s)
	}
}

// An alarm that had cleared when the state was saved does not stand again, although its
// record is newer than the save before.
func TestDB_LoadStations_clearedAlarm(t *testing.T) {
	db, _ := enrolled(t, 1)
	defer func() { _ = db.Close() }()
	save(t, db, locked(1, site.Locked, at(1000)))
	if err := db.Keep(t.Context(), site.Record{Kind: site.KindDoorForced, Facts: site.Facts{Station: 1, Lock: "lock-1"}}); err != nil {
		t.Fatal(err)
	}
	all := mustRead(t, db, journal.Query{})
	save(t, db, locked(1, site.Locked, all[len(all)-1].Time.Add(time.Hour)))
	if s := reload(t, db)[1]; len(s.Alarms) != 0 {
		t.Errorf("alarms %+v: want none", s.Alarms)
	}
}

// Records of a station that was removed are not about the next one of its id.
func TestDB_LoadStations_removedAndAddedAgain(t *testing.T) {
	db, _ := enrolled(t, 1)
	defer func() { _ = db.Close() }()
	removed := record(site.KindStationRemoved)
	removed.Station = 1
	for _, r := range []site.Record{
		{Kind: site.KindDoorOpened, Facts: site.Facts{Station: 1, Lock: "lock-1"}},
		{Kind: site.KindRefusedOften, Facts: site.Facts{Station: 1}},
	} {
		if err := db.Keep(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Amend(t.Context(), nil, []site.Amendment{{RemoveStation: 1, Record: removed}}); err != nil {
		t.Fatal(err)
	}
	addStation(t, db, 1)
	if s := reload(t, db)[1]; len(s.Alarms) != 0 || len(s.Locks) != 0 {
		t.Errorf("the new station begins with %+v", s)
	}
}

// A station that is enrolled again has no state of the one before it, not even where that
// is saved only now.
func TestDB_Amend_removedStationForgetsState(t *testing.T) {
	db, _ := enrolled(t, 2)
	defer func() { _ = db.Close() }()
	save(t, db, locked(1, site.Locked, at(1000)), locked(2, site.Locked, at(1000)))
	if err := db.Amend(t.Context(), nil, []site.Amendment{{RemoveStation: 1, Record: record(site.KindStationRemoved)}}); err != nil {
		t.Fatal(err)
	}
	addStation(t, db, 1)
	late := locked(1, site.Locked, at(1000))
	late.Enrolled = at(999)
	save(t, db, late)
	if found := reload(t, db); len(found) != 1 || found[2].Locks[0].Status != site.Locked {
		t.Errorf("found %+v", found)
	}
}

// Damaged states keep no door shut, and are replaced by the next.
func TestDB_LoadStations_damagedStates(t *testing.T) {
	for _, body := range []string{"x''", "x'00'", "x'78'", "'{'", "'{\"stations\":7}'"} {
		db, path := enrolled(t, 1)
		save(t, db, locked(1, site.Locked, at(1000)))
		_ = db.Close()
		tamper(t, path, "UPDATE station_states SET body = CAST("+body+" AS BLOB)")
		db = open(t, path, newClock())
		if found := reload(t, db); len(found) != 0 {
			t.Errorf("%s: found %+v", body, found)
		}
		save(t, db, locked(1, site.Jammed, at(2000)))
		if found := reload(t, db); found[1].Locks[0].Status != site.Jammed {
			t.Errorf("%s: found %+v", body, found)
		}
		_ = db.Close()
	}
}

// An upgrade keeps the states of the former schema, but for damaged ones.
func TestOpen_formerStates(t *testing.T) {
	db, path := enrolled(t, 2)
	_ = db.Close()
	tamper(t, path, dropNew+"DROP TABLE station_states; "+formerStates+`;
		INSERT INTO station_state VALUES (1, 3.71, '1.4.2', 6000, '[{"lockId":"lock-1","status":"locked","lastUpdated":"1970-01-01T00:00:07.000Z"}]'),
			(2, NULL, '', 0, 'x');
		PRAGMA user_version = 4`)
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	found := reload(t, db)
	s := found[1]
	if len(found) != 1 || *s.BatteryVoltage != 3.71 || s.Firmware != "1.4.2" || !s.LastConnection.Equal(at(6000)) ||
		len(s.Locks) != 1 || s.Locks[0].Status != site.Locked || !s.Locks[0].LastUpdated.Equal(at(7000)) {
		t.Errorf("found %+v", found)
	}
}

// What 200 stations report costs a card a few pages for each save, as the kernel
// counts: 25 MB a day are 156 KB for each of 160 saves, and most of it is for unlocks.
func TestDB_SaveStates_bytesWritten(t *testing.T) {
	const stations, most = 200, 24 << 10
	db, _ := enrolled(t, stations)
	defer func() { _ = db.Close() }()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for figures of a test
	report := func(turn int) []station.SavedState {
		states := make([]station.SavedState, stations)
		for i := range states {
			volts := 3 + float64(random.IntN(100))/100
			heard := at(int64(turn)*540_000 + random.Int64N(60_000))
			states[i] = station.SavedState{
				Station: site.StationID(i + 1), BatteryVoltage: &volts, Firmware: "1.4.2", LastConnection: heard,
				Locks: []site.Lock{{ID: 1, Status: site.Locked, LastUpdated: site.At(heard)}, {ID: 2, Status: site.Locked, LastUpdated: site.At(heard)}},
			}
		}
		return states
	}
	save(t, db, report(1)...)
	const saves = 10
	before := bytesWritten(t)
	for turn := range saves {
		save(t, db, report(2+turn)...)
	}
	if each := (bytesWritten(t) - before) / saves; each > most {
		t.Errorf("%d bytes are written for each save, at most %d may be", each, most)
	}
}

// bytesWritten is what this process has caused to be written (proc(5), /proc/pid/io).
func bytesWritten(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	t.Fatal("the kernel does not count")
	return 0
}

// Points of batteries are kept by day for 400 days, the first of each, until their station
// is removed.
func TestDB_Battery(t *testing.T) {
	db, _ := enrolled(t, 2)
	defer func() { _ = db.Close() }()
	points := func(days ...int64) (all []station.BatteryPoint) {
		for _, day := range days {
			all = append(all, station.BatteryPoint{Day: day, Volts: 3.7})
		}
		return all
	}
	put := func(id site.StationID, p ...station.BatteryPoint) {
		t.Helper()
		for _, p := range p {
			s := locked(id, site.Locked, at(1000))
			s.Point = p
			save(t, db, s)
		}
	}
	want := func(id site.StationID, want ...station.BatteryPoint) {
		t.Helper()
		got, err := db.Battery(t.Context(), id)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("station %s has %+v (%v), want %+v", id, got, err, want)
		}
	}
	want(1)
	put(1, points(20_000, 20_001, 20_399)...)
	put(2, points(20_001, 20_010)...)
	put(1, station.BatteryPoint{Day: 20_001, Volts: 3.6}, station.BatteryPoint{Day: 20_399, Volts: 3.8})
	want(1, station.BatteryPoint{Day: 20_000, Volts: 3.7}, station.BatteryPoint{Day: 20_001, Volts: 3.7}, station.BatteryPoint{Day: 20_399, Volts: 3.7})
	put(2, points(20_401)...)
	want(1, points(20_399)...)
	want(2, points(20_010, 20_401)...)
	if err := db.Amend(t.Context(), nil, []site.Amendment{{RemoveStation: 2, Record: record(site.KindStationRemoved)}}); err != nil {
		t.Fatal(err)
	}
	want(2)
}
