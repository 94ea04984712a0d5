package sqlite_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

const page = 4096

// sound opens a database as the gateway does, with its copy beside it.
func sound(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: path, Copy: path + ".copy", Boot: "boot-2", Logger: slog.New(slog.DiscardHandler), CarryFor: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	db.UseClock(newClock())
	return db
}

func closeDB(t *testing.T, db *sqlite.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// inUse makes a database with an account and so many further records, and closes it.
func inUse(t *testing.T, records int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gatehouse.db")
	db := sound(t, path)
	if err := db.Amend(t.Context(), nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "a@example.test"}, Record: record(site.KindAccountAdded)}}); err != nil {
		t.Fatal(err)
	}
	for i := range records - 1 {
		db.AppendLater(site.Record{Kind: site.KindUnlock, Facts: site.Facts{Detail: strings.Repeat("x", 200)}})
		if i%5000 == 0 || i == records-2 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeDB(t, db)
	return path
}

// spoil overwrites the first bytes of pages with something else.
func spoil(t *testing.T, path string, numbers ...int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, n := range numbers {
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xff}, 64), (n-1)*page); err != nil {
			t.Fatal(err)
		}
	}
}

// The journal of a damaged database is carried over but for what was on the damaged
// page: the records keep seq and hash, the journal says itself which are lost, and
// nothing counts as changed. What is new goes on behind what was.
func TestOpen_damagedJournal(t *testing.T) {
	const records = 1000
	path := inUse(t, records)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	last := info.Size() / page
	spoil(t, path, last/2, last)
	db := sound(t, path)
	if db.Rescued() == "" {
		t.Fatal("the damage went unnoticed")
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := db.LoadAccess(t.Context())
	if err != nil || len(all.Accounts) != 1 {
		t.Errorf("accounts %v, %v", all.Accounts, err)
	}
	checkLoss(t, db, records)
	closeDB(t, db)

	aside, err := filepath.Glob(path + ".damaged-*Z")
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside: %v, %v", aside, err)
	}
	if kept, err := os.Stat(aside[0]); err != nil || kept.Size() != info.Size() {
		t.Errorf("the database was not set aside whole: %v", err)
	}
	db = sound(t, path) // and all is well from now on
	if db.Rescued() != "" {
		t.Error("a sound database was set aside:", db.Rescued())
	}
	checkLoss(t, db, records)
	closeDB(t, db)
}

// Records between damaged pages are carried over, and those on them alone are lost.
func TestOpen_damagedPagesApart(t *testing.T) {
	const records, perPage = 3000, 16
	path := inUse(t, records)
	damaged := 0
	for at := leafFrom(t, path, 40); damaged < 8; at = leafFrom(t, path, at+3) {
		spoil(t, path, at)
		damaged++
	}
	markUnsound(t, path)
	db := sound(t, path)
	left := 0
	for _, r := range mustRead(t, db, journal.Query{Limit: 2 * records}) {
		if r.Seq <= records {
			left++
		}
	}
	if lost := records - left; lost == 0 || lost > damaged*perPage {
		t.Errorf("%d records are lost with %d pages", lost, damaged)
	}
	if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 || v.Lost != uint64(records-left) {
		t.Errorf("verdict %+v, %v", v, err)
	}
	closeDB(t, db)
}

// checkLoss checks that a few records of the first so many are lost, and that the
// journal says which.
func checkLoss(t *testing.T, db *sqlite.DB, records int) {
	t.Helper()
	all := mustRead(t, db, journal.Query{Limit: 2 * records})
	reported, old := 0, 0
	for _, r := range all {
		if r.Kind == site.KindRecordsLost && r.From > 0 {
			reported += r.Count
		}
		if r.Seq <= uint64(records) {
			old++
		}
	}
	// The numbers that the journal may have reached past its saved end count as lost too.
	if lost := records - old; reported == 0 || reported > 100 || reported < lost || reported > lost+sqlite.EndsLag {
		t.Errorf("%d of %d records are there, and %d are reported as lost", old, records, reported)
	}
	v, err := db.Verify(t.Context())
	if err != nil || v.Broken != 0 || v.Lost != uint64(reported) {
		t.Errorf("verdict %+v, %v; want %d lost", v, err, reported)
	}
}

// A record that was removed by hand is not taken for one that damage has cost.
func TestDB_Verify_removedAfterDamage(t *testing.T) {
	path := inUse(t, 300)
	spoil(t, path, 30)
	db := sound(t, path)
	closeDB(t, db)
	tamper(t, path, "DELETE FROM journal WHERE seq = 7")
	if v, err := (sqlite.Files{}).Verify(t.Context(), path); err != nil || v.Broken != 7 {
		t.Errorf("verdict %+v, %v; want 7 broken", v, err)
	}
}

// A damaged page in the middle of the journal keeps the database from nothing; the cloud
// gets what follows it, and the next start sets it aside.
func TestDB_Outbox_damagedPage(t *testing.T) {
	const records = 45_000 // more than a start looks at
	path := inUse(t, records)
	spoil(t, path, leafFrom(t, path, 200))
	noticed := 0
	db, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: path, Copy: path + ".copy", Boot: "boot-2", Logger: slog.New(slog.DiscardHandler), Damaged: func(error) { noticed++ },
	})
	if err != nil || db.Rescued() != "" {
		t.Fatal("a start looks at every page:", db.Rescued(), err)
	}
	seen, gaps, at := 0, 0, uint64(0)
	for at < db.Latest() {
		entries, err := db.Outbox(t.Context(), at, 500)
		if err != nil || len(entries) == 0 {
			t.Fatalf("after %d: %d entries, %v", at, len(entries), err)
		}
		for _, e := range entries {
			if e.Seq != at+1 {
				gaps++
			}
			at = e.Seq
			seen++
		}
	}
	if gaps != 1 || seen < records-100 || noticed != 1 {
		t.Errorf("%d of %d records with %d gaps; noticed %d times", seen, records, gaps, noticed)
	}
	if v, err := db.Verify(t.Context()); err != nil || v.Broken == 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
	closeDB(t, db)
	db = sound(t, path)
	if db.Rescued() == "" {
		t.Error("the next start goes on with the damaged page")
	}
	closeDB(t, db)
}

// leafFrom returns the first page from a number on that holds rows.
func leafFrom(t *testing.T, path string, number int64) int64 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for content[(number-1)*page] != 0x0d {
		number++
	}
	return number
}

// Without a copy, what can be read of the tables is taken.
func TestOpen_damagedWithoutCopy(t *testing.T) {
	path := inUse(t, 300)
	if err := os.Remove(path + ".copy"); err != nil {
		t.Fatal(err)
	}
	spoil(t, path, 1)
	db := sound(t, path)
	if !strings.Contains(db.Rescued(), "no sound copy") || db.Latest() < 300 {
		t.Errorf("latest %d: %s", db.Latest(), db.Rescued())
	}
	closeDB(t, db)
}

// A change of a table that SQLite cannot see, as by one flipped bit: the database and its
// copy disagree, and the digest in the copy shows which of them is right.
func TestOpen_disagreeing(t *testing.T) {
	for suffix, rescued := range map[string]bool{"": true, ".copy": false} {
		path := inUse(t, 10)
		tamper(t, path+suffix, "UPDATE account SET email = 'b@example.test'")
		for _, want := range []bool{rescued, false} { // at the first start, and at the next
			db := sound(t, path)
			if got := db.Rescued(); (got != "") != want || want && !strings.Contains(got, "those of the copy") {
				t.Errorf("gatehouse.db%s was changed: %q", suffix, got)
			}
			all, err := db.LoadAccess(t.Context())
			if err != nil || len(all.Accounts) != 1 || all.Accounts[0].Email != "a@example.test" {
				t.Errorf("gatehouse.db%s was changed: accounts %v, %v", suffix, all.Accounts, err)
			}
			closeDB(t, db)
		}
	}
}

// Of a file whose end is gone, the records before it are carried over.
func TestOpen_truncated(t *testing.T) {
	const records = 1000
	path := inUse(t, records)
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/page/2*page)
	}
	if err != nil {
		t.Fatal(err)
	}
	db := sound(t, path)
	v, err := db.Verify(t.Context())
	if err != nil || v.Broken != 0 || v.First != 1 || v.Lost == 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
	old := 0
	for _, r := range mustRead(t, db, journal.Query{Limit: 2 * records}) {
		if r.Seq <= records {
			old++
		}
	}
	if old < records/4 {
		t.Errorf("%d of %d records are there, of half of the file", old, records)
	}
	closeDB(t, db)
}

// Wherever the time for carrying records over ends, the database is set aside and the new one
// has the newest of them.
func TestOpen_carriedInPart(t *testing.T) {
	path := inUse(t, 45_000)
	spoil(t, path, leafFrom(t, path, 200))
	for span := time.Microsecond; span < time.Hour; span *= 8 {
		again := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(again, os.DirFS(filepath.Dir(path))); err != nil {
			t.Fatal(err)
		}
		again = filepath.Join(again, filepath.Base(path))
		if err := os.WriteFile(again+".unsound", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.Open(t.Context(), sqlite.Config{
			Path: again, Copy: again + ".copy", Boot: "boot-2", Logger: slog.New(slog.DiscardHandler), CarryFor: span,
		})
		if err != nil {
			t.Fatal(err)
		}
		v, err := db.Verify(t.Context())
		if db.Rescued() == "" || err != nil || v.Broken != 0 {
			t.Errorf("after %s: %q, %+v, %v", span, db.Rescued(), v, err)
		}
		closeDB(t, db)
		if v.Records > 44_000 {
			return
		}
	}
	t.Error("the records were never carried over whole")
}

// The copy lacks the last uses of sessions and tokens, and does not disagree for that.
func TestOpen_usesNotInCopy(t *testing.T) {
	path := inUse(t, 10)
	db := sound(t, path)
	if err := db.AddSession(t.Context(), site.Session{ID: "s-1", Account: "a-1", Expires: site.At(at(9000))}, [32]byte{}, record(site.KindLogin)); err != nil {
		t.Fatal(err)
	}
	amend(t, db, site.Amendment{AddToken: &site.Token{ID: "t-1", Name: "one"}})
	closeDB(t, db)
	uses := site.Uses{Tokens: map[site.AccountID]time.Time{"t-1": at(7)}, Sessions: map[site.SessionID]time.Time{"s-1": at(8)}}
	for _, want := range []site.Timestamp{{}, site.At(at(8))} {
		db = sound(t, path)
		all, err := db.LoadAccess(t.Context())
		if err != nil || len(all.Sessions) != 1 || all.Sessions[0].Used != want || db.Rescued() != "" {
			t.Errorf("sessions %+v, %v; %q", all.Sessions, err, db.Rescued())
		}
		if err := db.DropExpired(t.Context(), at(20), uses); err != nil {
			t.Fatal(err)
		}
		closeDB(t, db)
	}
}
