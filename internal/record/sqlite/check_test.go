package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
)

// abandon copies a database with the files beside it, as a killed gateway leaves
// it: with a log that was not moved into the file.
func abandon(t *testing.T, records int, sides ...string) string {
	t.Helper()
	db, path := fresh(t)
	for i := range records {
		if err := db.AppendRecord(t.Context(), unlockRecord(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(t.TempDir(), "gatehouse.db")
	for _, side := range append([]string{""}, sides...) {
		copyFile(t, path+side, copied+side)
	}
	return copied
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// folderOf returns every file beside path with its bytes and its time.
func folderOf(t *testing.T, path string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		info, unknown := e.Info()
		if err := errors.Join(err, unknown); err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = fmt.Sprintf("%s %x", info.ModTime(), text)
	}
	return all
}

// unchanged checks that looking leaves every file in the folder as it was.
func unchanged(t *testing.T, path string, look func()) {
	t.Helper()
	before := folderOf(t, path)
	look()
	after := folderOf(t, path)
	if !maps.Equal(before, after) {
		t.Errorf("the files %v were changed, or there are others now: %v",
			slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
}

func TestCheckFile(t *testing.T) {
	for _, test := range []struct {
		name  string
		sides []string
		last  uint64
	}{
		{"killed", []string{"-wal", "-shm"}, 3},
		{"file alone", nil, 0}, // its log had all records
		{"index alone", []string{"-shm"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := abandon(t, 3, test.sides...)
			unchanged(t, path, func() {
				for range 2 {
					state, err := sqlite.CheckFile(t.Context(), path)
					if err != nil || state.Damage != "" || state.Last != test.last || state.Schema == 0 || state.Size == 0 {
						t.Errorf("state %+v, %v", state, err)
					}
					v, err := sqlite.Files{}.Verify(t.Context(), path)
					if err != nil || v.Broken != 0 || v.Records != int(test.last) {
						t.Errorf("journal %+v, %v", v, err)
					}
				}
			})
		})
	}
}

func TestCheckFile_whileOpen(t *testing.T) {
	db, path := fresh(t)
	for i := range 5 {
		if err := db.AppendRecord(t.Context(), unlockRecord(i+1)); err != nil {
			t.Fatal(err)
		}
		state, err := sqlite.CheckFile(t.Context(), path)
		if err != nil || state.Last != uint64(i+1) || state.First != 1 || state.Damage != "" || state.Log == 0 {
			t.Fatalf("state %+v, %v", state, err)
		}
	}
}

func TestCheckFile_afterClosing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	if err := errors.Join(db.AppendRecord(t.Context(), unlockRecord(1)), db.Close()); err != nil {
		t.Fatal(err)
	}
	unchanged(t, path, func() {
		state, err := sqlite.CheckFile(t.Context(), path)
		if err != nil || state.Last != 1 || state.Damage != "" {
			t.Errorf("state %+v, %v", state, err)
		}
	})
}

func TestCheckFile_damaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	for i := range 200 {
		if err := db.AppendRecord(t.Context(), unlockRecord(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(text[len(text)-4096:], bytes.Repeat([]byte{0xee}, 4096)) // its last page
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if state, err := sqlite.CheckFile(t.Context(), path); err != nil || !strings.Contains(state.Damage, "damaged") {
		t.Errorf("state %+v, %v", state, err)
	}
}

func TestCheckFile_errors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx  context.Context
		path string
		want fault.Kind
	}{
		{t.Context(), filepath.Join(dir, "missing.db"), fault.NotFound},
		{t.Context(), text, fault.Invalid},
	} {
		unchanged(t, test.path, func() {
			_, err := sqlite.CheckFile(test.ctx, test.path)
			_, err2 := sqlite.Files{}.Verify(test.ctx, test.path)
			if !fault.Is(err, test.want) || err2 == nil {
				t.Errorf("%s: %v, %v; want kind %v", filepath.Base(test.path), err, err2, test.want)
			}
		})
	}
	whole := abandon(t, 1, "-wal", "-shm")
	if _, err := sqlite.CheckFile(ended, whole); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := (sqlite.Files{}).Verify(ended, whole); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// A newer version's file is looked at as far as this version knows it.
func TestCheckFile_newer(t *testing.T) {
	path := abandon(t, 1, "-wal", "-shm")
	if err := sqlite.MigrateBy(t.Context(), path, "ALTER TABLE journal_ends RENAME TO ends"); err != nil {
		t.Fatal(err)
	}
	schema, _ := sqlite.Schema()
	state, err := sqlite.CheckFile(t.Context(), path)
	if err != nil || state.Schema != schema+1 || state.Damage != "" {
		t.Errorf("state %+v, %v", state, err)
	}
}
