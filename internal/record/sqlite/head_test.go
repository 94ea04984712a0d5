package sqlite_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// older returns a database, closed, and the file that it was before its newest records.
func older(t *testing.T) (path, before string) {
	t.Helper()
	path = inUse(t, 20)
	before = filepath.Join(t.TempDir(), "gatehouse.db")
	copyFile(t, path, before)
	db := sound(t, path)
	if err := db.Amend(t.Context(), nil, []site.Amendment{{RemoveAccount: "a-1", Record: record(site.KindAccountRemoved)}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	return path, before
}

// accounts opens a database as the gateway does, and returns how many accounts it has, and the
// sentence on what was done with it.
func accounts(t *testing.T, path string) (n int, story string) {
	t.Helper()
	db := sound(t, path)
	defer closeDB(t, db)
	all, err := db.LoadAccess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Accounts), db.Rescued()
}

// An older file in the place of the database is set aside for the newer copy, though there is
// no head; not where a restore has put it there.
func TestOpen_olderThanCopy(t *testing.T) {
	for name, restored := range map[string]bool{"replaced": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			path, before := older(t)
			if restored {
				if _, _, err := (sqlite.Files{Logger: slog.New(slog.DiscardHandler)}).Renew(t.Context(), before, nil, true, record(site.KindRestored)); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{path + ".head", path + "-wal"} {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			copyFile(t, before, path)
			for range 2 { // the second time with the copy that the first has written
				n, story := accounts(t, path)
				if want := map[bool]int{true: 1}[restored]; n != want {
					t.Errorf("%d accounts, %q", n, story)
				}
				if before != "" && (story == "") != restored {
					t.Errorf("story %q", story)
				}
				before = ""
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if n, story := accounts(t, path); n != map[bool]int{true: 1}[restored] || story == "" {
				t.Errorf("from the copy: %d accounts, %q", n, story)
			}
		})
	}
}

// Records that are missing at the end are named, also where there is garbage in the place of the
// log, which no gateway has open.
func TestFiles_Verify_older(t *testing.T) {
	for name, c := range map[string]struct {
		lost   []string
		broken uint64
	}{
		"by both": {nil, 21}, "by the head": {[]string{".copy"}, 21}, "by the copy": {[]string{".head"}, 21}, "unknown": {[]string{".copy", ".head"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, before := older(t)
			copyFile(t, before, path)
			for _, suffix := range c.lost {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path+"-wal", bytes.Repeat([]byte{0xa5}, 5*page), 0o600); err != nil {
				t.Fatal(err)
			}
			unchanged(t, path, func() {
				if v, err := (sqlite.Files{}).Verify(t.Context(), path); err != nil || v.Broken != c.broken || v.Records != 20 {
					t.Errorf("verdict %+v, %v; want broken at %d", v, err, c.broken)
				}
			})
		})
	}
}

// A copy that is newer than the database, which could not be read at the start, stays.
func TestDB_newerCopyStays(t *testing.T) {
	path, before := older(t)
	newer := filepath.Join(t.TempDir(), "newer")
	if err := os.Rename(path+".copy", newer); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".head"); err != nil {
		t.Fatal(err)
	}
	copyFile(t, before, path)
	copied := make(chan error, 10)
	db, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: path, Copy: path + ".copy", Boot: "boot-2", Logger: slog.New(slog.DiscardHandler), Copied: func(err error) { copied <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	db.UseClock(newClock())
	if err := <-copied; err != nil { // there was none
		t.Error(err)
	}
	copyFile(t, newer, path+".copy")
	if err := db.RebaseSessions(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db) // and writes the copy
	if err := <-copied; err == nil {
		t.Error("the copy was replaced")
	}
	if inv, err := (sqlite.Files{}).Inspect(t.Context(), path+".copy", "The copy"); err != nil || inv.Accounts != 0 {
		t.Errorf("%d accounts in the copy, %v", inv.Accounts, err)
	}
	if n, story := accounts(t, path); n != 0 || story == "" {
		t.Errorf("%d accounts, %q", n, story)
	}
}
