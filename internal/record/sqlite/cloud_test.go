package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

func TestDB_CloudCursor(t *testing.T) {
	db, path, _ := filled(t)
	for _, want := range []uint64{0, 7, 10} {
		if want > 0 {
			if err := db.SaveCloudCursor(t.Context(), want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := db.CloudCursor(t.Context()); err != nil || got != want {
			t.Errorf("%d, %v; want %d", got, err, want)
		}
	}
	// One beyond the journal would hold back what comes next.
	if err := errors.Join(db.SaveCloudCursor(t.Context(), 11), db.Close()); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if got, err := db.CloudCursor(t.Context()); err != nil || got != 10 {
		t.Errorf("%d, %v", got, err)
	}
}

func TestDB_CloudStations(t *testing.T) {
	db, _ := fresh(t)
	for _, want := range [][]site.StationID{nil, {1042, 7}, {}} {
		if want != nil {
			if err := db.SaveCloudStations(t.Context(), want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := db.CloudStations(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
}

// A damaged value keeps nothing from starting, and is logged.
func TestDB_cloudMetaDamaged(t *testing.T) {
	db, path, _ := filled(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, "INSERT INTO meta VALUES ('cloud_cursor', '-7'), ('cloud_stations', '[10')")
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	var log bytes.Buffer
	db.LogTo(&log)
	cursor, err := db.CloudCursor(t.Context())
	stations, unread := db.CloudStations(t.Context())
	if errors.Join(err, unread) != nil || cursor != 0 || len(stations) != 0 || strings.Count(log.String(), "damaged") != 2 {
		t.Errorf("%d, %v, %v: %s", cursor, stations, errors.Join(err, unread), log.String())
	}
}

// The outbox returns what is on the disk, byte for byte, in small pieces.
func TestDB_Outbox(t *testing.T) {
	db, path, _ := filled(t)
	large := site.Record{Kind: site.KindLogin, Facts: site.Facts{Detail: strings.Repeat("x", 200<<10)}}
	for range 3 {
		if err := db.AppendRecord(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, "UPDATE journal SET body = '{\"seq\":4' WHERE seq = 4; UPDATE journal SET body = body || body WHERE seq = 12; DELETE FROM journal WHERE seq = 6")
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	for _, c := range []struct {
		after uint64
		limit int
		want  []uint64
	}{
		{0, 3, []uint64{1, 2, 3}},
		{3, 4, []uint64{4, 5, 7, 8}},
		{8, 100, []uint64{9, 10, 11}}, // the next would be more than 256 KiB
		{11, 100, []uint64{12}},       // and so is this one alone
		{12, 100, []uint64{13}},
		{13, 100, nil},
		{99, 100, nil},
		{0, 0, nil},
	} {
		entries, err := db.Outbox(t.Context(), c.after, c.limit)
		var got []uint64
		for _, e := range entries {
			got = append(got, e.Seq)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d after %d: %v, %v; want %v", c.limit, c.after, got, err, c.want)
		}
	}
	entries, err := db.Outbox(t.Context(), 2, 2)
	if err != nil || string(entries[1].Body) != `{"seq":4` {
		t.Fatalf("%+v, %v", entries, err)
	}
	third := mustRead(t, db, journal.Query{AfterSeq: 2, Limit: 1})[0]
	if got, want := string(entries[0].Body), string(third.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// formerGrants brings groups, holidays and grants back to what they were before schema 7.
const formerGrants = `ALTER TABLE session DROP COLUMN client; ALTER TABLE session DROP COLUMN used; DROP TABLE login_device; ALTER TABLE journal_ends DROP COLUMN evidence; ALTER TABLE station DROP COLUMN homeassistant; DROP TABLE access_grant; DROP TABLE holiday; DROP TABLE group_station; DROP TABLE group_account; DROP TABLE site_group;
CREATE TABLE access_grant (
    account    TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    station    INTEGER NOT NULL REFERENCES station (id) ON DELETE CASCADE,
    from_time  INTEGER NOT NULL,
    until_time INTEGER NOT NULL,
    hours      TEXT NOT NULL,
    PRIMARY KEY (account, station)
) STRICT, WITHOUT ROWID;
CREATE INDEX access_grant_station ON access_grant (station);`

// dropNew undoes the schemas after the fifth.
const dropNew = formerGrants + "DROP TABLE IF EXISTS next_version; DROP TABLE token_station; DROP TABLE token; DROP TABLE battery; "

// formerStates is how the first schema kept the states of stations.
const formerStates = `CREATE TABLE station_state (
    station         INTEGER PRIMARY KEY REFERENCES station (id) ON DELETE CASCADE,
    battery         REAL,
    firmware        TEXT NOT NULL,
    last_connection INTEGER NOT NULL,
    locks           TEXT NOT NULL
) STRICT`

// An upgrade from the first schema keeps everything, and a copy of what was there.
func TestOpen_fromTheFirstSchema(t *testing.T) {
	db, path, _ := filled(t)
	before := mustRead(t, db, journal.Query{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, dropNew+"DROP TABLE login_address; DROP TABLE station_states; "+formerStates+"; PRAGMA user_version = 1")
	old := filepath.Join(t.TempDir(), "old.db")
	if err := sqlite.MakeBy(t.Context(), old, 1); err != nil {
		t.Fatal(err)
	}
	if was, is := tables(t, old), tables(t, path); was != is {
		t.Fatalf("the first schema is\n%s\nand not\n%s", was, is)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if after := mustRead(t, db, journal.Query{}); !reflect.DeepEqual(before, after) {
		t.Errorf("the records are %+v, were %+v", after, before)
	}
	mustVerify(t, db, 10)
	if copied := inspect(t, path+".schema1"); copied.Schema != 1 || copied.Records != 10 {
		t.Errorf("the copy holds %+v", copied)
	}
	if known, err := sqlite.Schema(); err != nil || inspect(t, path).Schema != known {
		t.Errorf("schema %d, want %d, %v", inspect(t, path).Schema, known, err)
	}
	if _, err := os.Stat(path + ".schema1.partial"); err == nil {
		t.Error("an unfinished copy is left")
	}
}

// tables returns the schema of a file as text.
func tables(t *testing.T, path string) (text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(t.Context(), "SELECT group_concat(sql, ';\n' ORDER BY name) FROM sqlite_schema").Scan(&text)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return text
}
