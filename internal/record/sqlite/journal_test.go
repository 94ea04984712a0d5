package sqlite_test

import (
	"encoding/json"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// filled writes ten records two hours apart, station 1 and 2 in turn.
func filled(t *testing.T) (db *sqlite.DB, path string, clock *fakeClock) {
	t.Helper()
	return filledBy(t, func(i int) site.Record { return unlockRecord(1 + i%2) })
}

// filledWithKeys is filled with an Idempotency-Key in every second record.
func filledWithKeys(t *testing.T) (db *sqlite.DB, path string, clock *fakeClock) {
	t.Helper()
	return filledBy(t, func(i int) site.Record {
		r := unlockRecord(1 + i%2)
		r.IdempotencyKey = strings.Repeat("k", i%2)
		return r
	})
}

func filledBy(t *testing.T, record func(i int) site.Record) (db *sqlite.DB, path string, clock *fakeClock) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gatehouse.db")
	clock = newClock()
	db = open(t, path, clock)
	for i := range 10 {
		if err := db.AppendRecord(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
		clock.ms.Add(7_200_000)
	}
	return db, path, clock
}

func seqs(records []site.Record) (all []uint64) {
	for _, r := range records {
		all = append(all, r.Seq)
	}
	return all
}

func TestDB_Read_selects(t *testing.T) {
	db, _, _ := filled(t)
	defer func() { _ = db.Close() }()
	at := func(second int64) time.Time { return time.UnixMilli(1_800_000_000_000 + second*7_200_000) }
	for name, c := range map[string]struct {
		q     journal.Query
		first uint64
		count int
	}{
		"all":                {journal.Query{}, 1, 10},
		"limit":              {journal.Query{Limit: 3}, 1, 3},
		"after":              {journal.Query{AfterSeq: 8}, 9, 2},
		"since":              {journal.Query{Since: at(4)}, 5, 6},
		"since between":      {journal.Query{Since: at(4).Add(time.Millisecond)}, 6, 5},
		"since the future":   {journal.Query{Since: at(100)}, 0, 0},
		"since long ago":     {journal.Query{Since: time.UnixMilli(5)}, 1, 10},
		"until":              {journal.Query{Until: at(4)}, 1, 4},
		"station":            {journal.Query{Station: 2}, 2, 5},
		"kind":               {journal.Query{Kinds: []site.Kind{site.KindLogin}}, 0, 0},
		"kinds":              {journal.Query{Kinds: []site.Kind{site.KindLogin, site.KindUnlock}, Limit: 2}, 1, 2},
		"after and since":    {journal.Query{AfterSeq: 2, Since: at(1)}, 3, 8},
		"station with limit": {journal.Query{Station: 2, AfterSeq: 4, Limit: 1}, 6, 1},
	} {
		got := seqs(mustRead(t, db, c.q))
		if len(got) != c.count || (c.count > 0 && got[0] != c.first) {
			t.Errorf("%s: seqs %v, want %d from %d", name, got, c.count, c.first)
		}
	}
}

func TestDB_Recent(t *testing.T) {
	db, path, _ := filledWithKeys(t)
	if err := db.AppendRecord(t.Context(), site.Record{Kind: site.KindLogin}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, "UPDATE journal SET body = '{\"seq\":9' WHERE seq = 9")
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	for _, c := range []struct {
		most, within int
		span         time.Duration
		want         []uint64
	}{
		{3, 100, 0, []uint64{7, 8, 10}},
		{100, 4, 0, []uint64{8, 10}},
		{100, 1, 0, nil},
		{1, 100, 8*time.Hour + 1, []uint64{6, 8, 10}}, // two hours apart, those with even numbers have keys
		{1, 100, 8 * time.Hour, []uint64{8, 10}},
		{1, 4, 20 * time.Hour, []uint64{8, 10}},
		{3, 100, 6 * time.Hour, []uint64{7, 8, 10}},
		{3, 100, 20 * time.Hour, []uint64{2, 4, 6, 7, 8, 10}},
	} {
		records, err := db.Recent(t.Context(), c.most, c.within, c.span)
		if got := seqs(records); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if _, err := db.Read(t.Context(), journal.Query{}); err == nil || !strings.Contains(err.Error(), "journal verify") {
		t.Errorf("reading over a damaged record: %v", err)
	}
}

// Records of updates are returned whatever their age: their ids are carried out once.
func TestDB_Recent_updates(t *testing.T) {
	db, _, _ := filledWithKeys(t)
	defer func() { _ = db.Close() }()
	for _, r := range []site.Record{{Kind: site.KindUpdate, Facts: site.Facts{JTI: "jti", Outcome: site.Requested}}, {Kind: site.KindUpdate}, unlockRecord(1)} {
		if err := db.AppendRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	records, err := db.Recent(t.Context(), 1, 100, 0)
	if got := seqs(records); err != nil || !slices.Equal(got, []uint64{11, 12, 13}) {
		t.Errorf("%v, %v", got, err)
	}
}

// What a clock said in one run says nothing of another run's.
func TestDB_Recent_ofEachRun(t *testing.T) {
	db, path, clock := filledWithKeys(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: "boot-2", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	clock.ms.Add(365 * 24 * 3_600_000)
	db.UseClock(clock)
	if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
		t.Fatal(err)
	}
	records, err := db.Recent(t.Context(), 1, 100, 3*time.Hour)
	if got := seqs(records); err != nil || !slices.Equal(got, []uint64{10, 11}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFiles_Verify_namesTheFirstBrokenRecord(t *testing.T) {
	for name, c := range map[string]struct {
		statement string
		broken    uint64
	}{
		"untouched":            {"SELECT 1", 0},
		"a changed body":       {"UPDATE journal SET body = replace(body, 'requested', 'refused') WHERE seq = 4", 4},
		"a changed hash":       {"UPDATE journal SET hash = zeroblob(32) WHERE seq = 6", 6},
		"a removed record":     {"DELETE FROM journal WHERE seq = 5", 5},
		"the oldest removed":   {"DELETE FROM journal WHERE seq <= 2", 1},
		"the newest removed":   {"DELETE FROM journal WHERE seq >= 9", 9},
		"a changed time":       {"UPDATE journal SET time = time + 1 WHERE seq = 3", 3},
		"a changed station":    {"UPDATE journal SET station = 9 WHERE seq = 7", 7},
		"two swapped":          {"UPDATE journal SET seq = CASE seq WHEN 2 THEN -3 WHEN 3 THEN -2 END WHERE seq IN (2, 3); UPDATE journal SET seq = -seq WHERE seq < 0", 2},
		"one added at the end": {"INSERT INTO journal SELECT 11, time, station, body, hash FROM journal WHERE seq = 10", 11},
	} {
		t.Run(name, func(t *testing.T) {
			db, path, _ := filled(t)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, path, c.statement)
			v, err := sqlite.Files{}.Verify(t.Context(), path)
			if err != nil || v.Broken != c.broken || (v.Why == "") != (c.broken == 0) {
				t.Errorf("verdict %+v, %v; want broken at %d", v, err, c.broken)
			}
		})
	}
}

func TestFiles_Verify_absentOrForeign(t *testing.T) {
	if _, err := (sqlite.Files{}).Verify(t.Context(), filepath.Join(t.TempDir(), "none.db")); err == nil {
		t.Error("a file that is not there was verified")
	}
	path := filepath.Join(t.TempDir(), "other.db")
	tamper(t, path, "CREATE TABLE t (x)")
	if _, err := (sqlite.Files{}).Verify(t.Context(), path); err == nil {
		t.Error("a foreign database was verified")
	}
}

// Whatever order of writes, prunes and reopenings: the chain is sound, gapless, and
// its size is that of the kept records.
func TestDB_journalProperty(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		path := filepath.Join(dir, strconv.Itoa(runs)+".db")
		clock := newClock()
		db := open(t, path, clock)
		defer func() { _ = db.Close() }()
		var first, last uint64 = 1, 0
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "prune", "reopen"}).Draw(rt, "step") {
			case "append":
				n := rapid.IntRange(1, 5).Draw(rt, "n")
				for i := range n - 1 {
					db.AppendLater(unlockRecord(1 + i))
				}
				if err := db.Keep(t.Context(), unlockRecord(n)); err != nil {
					rt.Fatal(err)
				}
				last += uint64(n)
			case "prune":
				keepAfter := rapid.Uint64Range(0, last+1).Draw(rt, "keepAfter")
				if _, err := db.Prune(t.Context(), journal.Retention{Held: keepAfter, HardBytes: math.MaxInt64}); err != nil {
					rt.Fatal(err)
				}
				first = max(first, min(keepAfter, last)+1)
			case "reopen":
				if err := db.Close(); err != nil {
					rt.Fatal(err)
				}
				db = open(t, path, clock)
			}
			v, err := db.Verify(t.Context())
			if err != nil || v.Broken != 0 || v.First != first || v.Last != last || v.Records != int(last+1-first) {
				rt.Fatalf("verdict %+v, %v; want %d to %d", v, err, first, last)
			}
		}
		var bytes int64
		records, err := db.Read(t.Context(), journal.Query{})
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range records {
			bytes += int64(len(encode(rt, r)))
		}
		if size := db.Size(); size.Bytes != bytes {
			rt.Fatalf("size %+v; want %d bytes", size, bytes)
		}
	})
}

func encode(t *rapid.T, r site.Record) []byte {
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
