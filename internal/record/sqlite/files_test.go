package sqlite_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// lived is the file of a gateway that has an account, a session, a station and three
// records.
func lived(t *testing.T) (path string, id site.GatewayID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	id, err := db.GatewayID(t.Context())
	for i, step := range []error{
		err,
		db.Amend(t.Context(), nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "a@example.test"}, Record: record(site.KindAccountAdded)}}),
		db.AddSession(t.Context(), site.Session{ID: "s-1", Account: "a-1", Refresh: [32]byte{1}, Expires: site.At(at(10))}, [32]byte{}, record(site.KindLogin)),
		db.Amend(t.Context(), nil, []site.Amendment{{AddStation: &site.Station{ID: 1, Token: "one"}, Record: record(site.KindStationAdded)}}),
		db.Close(),
	} {
		if step != nil {
			t.Fatal(i, step)
		}
	}
	return path, id
}

func mustBeSound(t *testing.T, path string, records int) {
	t.Helper()
	if v, err := (sqlite.Files{}).Verify(t.Context(), path); err != nil || v.Broken != 0 || v.Records != records {
		t.Errorf("%s: %+v, %v; want %d sound records", path, v, err, records)
	}
}

func TestFiles_Inspect(t *testing.T) {
	path, id := lived(t)
	// This build knows the schemas of the folder and no other.
	shipped, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	want := site.Inventory{
		Gateway: id, Schema: len(shipped), Accounts: 1, Stations: 1, Sessions: 1, Records: 3, First: 1, Last: 3,
		Newest: site.At(time.UnixMilli(1_800_000_000_000)),
	}
	inv := inspect(t, path)
	want.Head = inv.Head
	if inv != want || len(inv.Head) != 64 {
		t.Errorf("got %+v, want %+v", inv, want)
	}
	tamper(t, path, "UPDATE journal SET body = replace(body, 'login', 'Login') WHERE seq = 2")
	if v, err := (sqlite.Files{}).Verify(t.Context(), path); err != nil || v.Broken != 2 {
		t.Errorf("of a changed journal: %+v, %v", v, err)
	}
}

func TestFiles_Inspect_refuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		kind  fault.Kind
	}{
		"absent":          {func(t *testing.T, path string) { _ = os.Remove(path) }, fault.NotFound},
		"empty":           {func(t *testing.T, path string) { _ = os.Truncate(path, 0) }, fault.Invalid},
		"cut off":         {cut, fault.Invalid},
		"scribbled over":  {scribble, fault.Invalid},
		"text":            {func(t *testing.T, path string) { _ = os.WriteFile(path, []byte(strings.Repeat("text ", 1000)), 0o600) }, fault.Invalid},
		"of another one":  {func(t *testing.T, path string) { tamper(t, path, "DROP TABLE meta") }, fault.Invalid},
		"without a chain": {func(t *testing.T, path string) { tamper(t, path, "DELETE FROM journal_ends") }, fault.Invalid},
		"newer":           {func(t *testing.T, path string) { tamper(t, path, "PRAGMA user_version = 99") }, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := lived(t)
			_ = os.Remove(path + "-wal") // all is in the file
			c.spoil(t, path)
			inv, err := sqlite.Files{}.Inspect(t.Context(), path, "The file")
			if !fault.Is(err, c.kind) || !strings.HasPrefix(err.Error(), "The file ") {
				t.Errorf("%+v, %v", inv, err)
			}
		})
	}
}

func TestFiles_Renew(t *testing.T) {
	files := sqlite.Files{Logger: slog.New(slog.DiscardHandler)}
	for _, keep := range []bool{false, true} {
		path, id := lived(t)
		_, ended, err := files.Renew(t.Context(), path, nil, keep, site.Record{Kind: site.KindRestored, Facts: site.Facts{Detail: "why"}})
		want := map[bool]int{false: 1, true: 0}[keep]
		if err != nil || ended != want {
			t.Fatalf("%d sessions ended, %v", ended, err)
		}
		inv := inspect(t, path)
		if inv.Gateway != id || inv.Sessions != 1-want || inv.Records != 4 {
			t.Errorf("then it holds %+v", inv)
		}
		mustBeSound(t, path, 4)
		db := open(t, path, newClock())
		last := mustRead(t, db, journal.Query{AfterSeq: 3})
		if len(last) != 1 || last[0].Kind != site.KindRestored || last[0].Count != want || last[0].Detail != "why" ||
			last[0].ClockTrusted || last[0].Boot == "" || last[0].Time.UnixMilli() < 1_800_000_000_000 {
			t.Errorf("the last record: %+v", last)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFiles_Renew_damaged(t *testing.T) {
	path, _ := lived(t)
	scribble(t, path)
	if _, _, err := (sqlite.Files{Logger: slog.New(slog.DiscardHandler)}).Renew(t.Context(), path, nil, false, site.Record{}); err == nil {
		t.Error("a damaged file was renewed")
	}
}
