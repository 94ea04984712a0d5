package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// large fills a database so that copying it takes a while.
func large(t *testing.T, db *sqlite.DB) {
	t.Helper()
	for range 40 {
		for range 500 {
			db.AppendLater(unlockRecord(7))
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDB_Snapshot_whileTheWriterGoesOn(t *testing.T) {
	db, path := fresh(t)
	large(t, db)
	target := filepath.Join(t.TempDir(), "copy.db")
	copied := make(chan error, 1)
	go func() { copied <- db.Snapshot(t.Context(), target) }()
	meanwhile := 0
	for under := true; under; {
		select {
		case err := <-copied:
			if err != nil {
				t.Fatal(err)
			}
			under = false
		default:
			if err := db.AppendRecord(t.Context(), unlockRecord(8)); err != nil {
				t.Fatal(err)
			}
			meanwhile++
		}
	}
	mustVerify(t, db, 20_000+meanwhile)
	inv, err := sqlite.Files{}.Inspect(t.Context(), target, "the copy")
	if err != nil || inv.Records < 20_000 || inv.Records > 20_000+meanwhile {
		t.Errorf("the copy holds %+v, %v", inv, err)
	}
	mustBeSound(t, target, inv.Records)
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// hooked is a context that does something whenever it is asked whether it has ended,
// which database/sql does in goroutines of its own, too.
type hooked struct {
	context.Context
	asked func() error
}

func (hooked) Done() <-chan struct{} { return nil }
func (h hooked) Err() error          { return h.asked() }

// The copy is of one moment, though others write after each of its steps, and is not
// begun again for them. None of them waits for it: here one would for ever.
func TestDB_Snapshot_ofOneMoment(t *testing.T) {
	db, _ := fresh(t)
	large(t, db)
	target := filepath.Join(t.TempDir(), "copy.db")
	begun := func() bool {
		info, err := os.Stat(target + ".partial")
		return err == nil && info.Size() > 0
	}
	var written atomic.Int64
	err := db.Snapshot(hooked{t.Context(), func() error {
		if !begun() {
			return nil
		}
		if written.Add(1) > 100 {
			return context.Canceled
		}
		return db.AppendRecord(t.Context(), unlockRecord(8))
	}}, target)
	if n := written.Load(); err != nil || n < 5 {
		t.Fatalf("%v after %d records were written meanwhile", err, n)
	}
	mustBeSound(t, target, 20_000)
}

func TestDB_Snapshot_fails(t *testing.T) {
	db, _ := fresh(t)
	large(t, db)
	folder := t.TempDir()
	there := filepath.Join(folder, "there.db")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		path string
		want string
	}{
		"no room":        {t.Context(), "/proc/copy.db", "There is no room in /proc: it needs "}, // procfs has no free block
		"no folder":      {t.Context(), filepath.Join(folder, "none", "copy.db"), "does not say how much room"},
		"not its to use": {t.Context(), "/sys/kernel", "no room"},
		"called off":     {gone, filepath.Join(folder, "copy.db"), "context canceled"},
	} {
		err := db.Snapshot(c.ctx, c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || (!fault.Is(err, fault.Unavailable) && !errors.Is(err, context.Canceled)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The schema of a later version, as an upgrade brings it.
const later = "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT"

func inspect(t *testing.T, path string) site.Inventory {
	t.Helper()
	inv, err := sqlite.Files{}.Inspect(t.Context(), path, "the file")
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestMigrate_keepsAVerifiedCopy(t *testing.T) {
	db, path, _ := filled(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := inspect(t, path)
	kept := fmt.Sprint(path, ".schema", before.Schema)
	for name, text := range map[string]string{kept: "an older copy", kept + ".partial": "an unfinished one"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlite.MigrateBy(t.Context(), path, later); err != nil {
		t.Fatal(err)
	}
	if got := inspect(t, kept); got != before || got.Records != 10 {
		t.Errorf("the copy holds %+v, the database held %+v", got, before)
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if _, err := os.Stat(kept + ".partial"); err == nil {
		t.Error("an unfinished copy is left")
	}

	// This version refuses what the later one wrote, and says how to go back.
	newer := fmt.Sprintf("(schema %d, this one knows %d)", before.Schema+1, before.Schema)
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: "b"})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), newer) ||
		!strings.Contains(err.Error(), "gatehouse restore "+kept+"; nothing was changed") {
		t.Errorf("opening a newer database: %v", err)
	}
	if _, err := (sqlite.Files{}).Inspect(t.Context(), path, "The file"); !fault.Is(err, fault.Conflict) ||
		err.Error() != "The file is of a newer version of gatehouse "+newer+": install that version first" {
		t.Errorf("inspecting a newer database: %v", err)
	}
	if err := os.Remove(kept); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: "b"}); err == nil || strings.Contains(err.Error(), "restore") {
		t.Errorf("without a copy: %v", err)
	}
}

func TestMigrate_failing(t *testing.T) {
	db, path, _ := filled(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := inspect(t, path)
	if err := sqlite.MigrateBy(t.Context(), path, later, "CREATE NONSENSE"); err == nil {
		t.Fatal("a migration that is no SQL was made")
	}
	kept := fmt.Sprint(path, ".schema", before.Schema)
	if got := inspect(t, kept); got != before {
		t.Errorf("the copy holds %+v, the database held %+v", got, before)
	}
	// The version to which the copy belongs goes on with it.
	if err := os.Rename(kept, path); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	mustVerify(t, db, 10)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// scribble writes over the heads of all pages but the first.
func scribble(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 4096; at+64 < len(data); at += 4096 {
		copy(data[at:], strings.Repeat("\xa5", 64))
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// cut removes the second half of a file.
func cut(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2); err != nil {
		t.Fatal(err)
	}
}
