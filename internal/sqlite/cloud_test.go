package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/sqlite"
)

// A command is taken once for ever, also by a process that is started again.
func TestDB_TakeCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	ctx := t.Context()
	first := site.TakenCommand{ID: "c-1", Until: at(60_000), Outcome: site.Requested}
	second := site.TakenCommand{ID: `C-1 "'%`, Until: at(50_000), Outcome: site.Expired, Ended: at(51_000)}
	if err := errors.Join(db.TakeCommand(ctx, first), db.TakeCommand(ctx, second)); err != nil {
		t.Fatal(err)
	}
	if err := db.TakeCommand(ctx, site.TakenCommand{ID: "c-1", Until: at(90_000)}); !fault.Is(err, fault.Conflict) {
		t.Errorf("taken twice: %v", err)
	}
	if err := db.EndCommand(ctx, "c-1", site.Done, at(1234)); err != nil {
		t.Error(err)
	}
	if err := db.EndCommand(ctx, "c-9", site.Done, at(1234)); !fault.Is(err, fault.NotFound) {
		t.Errorf("one that was not taken has ended: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if err := db.TakeCommand(ctx, first); !fault.Is(err, fault.Conflict) {
		t.Errorf("taken again after a restart: %v", err)
	}
	first.Outcome, first.Ended = site.Done, at(1234)
	checkTaken(t, db, second, first)
	for _, c := range []struct {
		before time.Time
		want   int
	}{{at(50_000), 0}, {at(50_001), 1}, {at(60_000), 0}, {at(1 << 40), 1}} {
		if n, err := db.ForgetCommands(ctx, c.before); err != nil || n != c.want {
			t.Errorf("%s: %d are forgotten, %v; want %d", c.before, n, err, c.want)
		}
	}
	checkTaken(t, db)
	mustVerify(t, db, 0)
}

// Many are forgotten in several transactions, all the same.
func TestDB_ForgetCommands_many(t *testing.T) {
	db, _ := fresh(t)
	const many = 1300
	for i := range many {
		if err := db.TakeCommand(t.Context(), site.TakenCommand{ID: fmt.Sprint("c-", i), Until: at(int64(i)), Outcome: site.Requested}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := db.ForgetCommands(t.Context(), at(many-1)); err != nil || n != many-1 {
		t.Errorf("%d are forgotten, %v", n, err)
	}
	checkTaken(t, db, site.TakenCommand{ID: fmt.Sprint("c-", many-1), Until: at(many - 1), Outcome: site.Requested})
}

func checkTaken(t *testing.T, db *sqlite.DB, want ...site.TakenCommand) {
	t.Helper()
	if got, err := db.TakenCommands(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("taken: %+v, %v; want %+v", got, err, want)
	}
}

// What was taken while the disk is full is not there, and that is said.
func TestDB_TakeCommand_fullDisk(t *testing.T) {
	db, _ := fresh(t)
	fillUp(t, db)
	err := db.TakeCommand(t.Context(), site.TakenCommand{ID: strings.Repeat("x", 5000), Until: at(1)})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	checkTaken(t, db)
}

// A restored gateway keeps what was taken before its backup, and takes nothing else until
// a trusted clock has told the time.
func TestFiles_Renew_commands(t *testing.T) {
	db, path, _ := filled(t)
	ctx := t.Context()
	taken := site.TakenCommand{ID: "c-1", Until: at(60_000), Outcome: site.Done, Ended: at(7)}
	if err := errors.Join(db.TakeCommand(ctx, taken), db.SaveCloudCursor(ctx, 4), db.SaveCloudStations(ctx, []site.StationID{7})); err != nil {
		t.Fatal(err)
	}
	if from, waiting, err := db.CommandsFrom(ctx); err != nil || waiting || !from.IsZero() {
		t.Errorf("before: %s, %t, %v", from, waiting, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, keepSessions := range []bool{true, false} {
		if _, err := (sqlite.Files{Logger: slog.New(slog.DiscardHandler)}).Renew(ctx, path, keepSessions, record(site.KindRestored)); err != nil {
			t.Fatal(err)
		}
		db = open(t, path, newClock())
		if from, waiting, err := db.CommandsFrom(ctx); err != nil || !waiting || !from.IsZero() {
			t.Errorf("restored: %s, %t, %v", from, waiting, err)
		}
		if err := db.SaveCommandsFrom(ctx, at(1234)); err != nil {
			t.Error(err)
		}
		if from, waiting, err := db.CommandsFrom(ctx); err != nil || waiting || !from.Equal(at(1234)) {
			t.Errorf("once the clock is right: %s, %t, %v", from, waiting, err)
		}
		checkTaken(t, db, taken)
		cursor, err := db.CloudCursor(ctx)
		stations, unread := db.CloudStations(ctx)
		if errors.Join(err, unread) != nil || cursor != 4 || !slices.Equal(stations, []site.StationID{7}) {
			t.Errorf("the cloud has taken %d and shows %v, %v", cursor, stations, errors.Join(err, unread))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

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

// A damaged value keeps nothing from starting, and is told.
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

// The outbox gives what stands on the disk, byte for byte, in small pieces.
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

// An upgrade from the first schema keeps everything, and a copy of what was there.
func TestOpen_fromTheFirstSchema(t *testing.T) {
	db, path, _ := filled(t)
	before := mustRead(t, db, journal.Query{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, "DROP TABLE cloud_command; DROP TABLE IF EXISTS next_version; PRAGMA user_version = 1")
	old := filepath.Join(t.TempDir(), "old.db")
	if err := sqlite.MakeBy(t.Context(), old, 1); err != nil {
		t.Fatal(err)
	}
	if was, is := tables(t, old), tables(t, path); was != is {
		t.Fatalf("the first schema is\n%s\nand not\n%s", was, is)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if err := db.TakeCommand(t.Context(), site.TakenCommand{ID: "c-1", Until: at(1)}); err != nil {
		t.Error(err)
	}
	checkTaken(t, db, site.TakenCommand{ID: "c-1", Until: at(1), Outcome: site.Requested})
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

// tables gives the schema of a file as text.
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
