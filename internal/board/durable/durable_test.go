package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // in the test's folder
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// onlyFile fails unless the folder has this one file, with this mode.
func onlyFile(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Fatalf("the folder has %v, %v", entries, err)
	}
	info, err := entries[0].Info()
	if err != nil || info.Mode() != mode {
		t.Errorf("the mode is %v, %v; want %v", info.Mode(), err, mode)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, one := range []struct {
		text string
		mode fs.FileMode
	}{{"first", 0o600}, {"second", 0o644}, {"", 0o600}} {
		if err := durable.Write(path, []byte(one.text), one.mode); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != one.text {
			t.Errorf("the file has %q, want %q", got, one.text)
		}
		onlyFile(t, path, one.mode)
	}
}

func TestWriteGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.WriteGroup(path, []byte("text"), 0o640, os.Getgid()); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path, 0o640)
}

// What a power cut has left of a former write, or a link that someone has put there, is
// replaced and never written through.
func TestWrite_leftover(t *testing.T) {
	folder := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "file")
	if err := os.Symlink(victim, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path, 0o600)
	if got := read(t, victim); got != "untouched" {
		t.Errorf("the file behind the link has %q", got)
	}
}

func TestWrite_failing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, []byte("text"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	onlyFile(t, path, fs.ModeDir|0o700)
	if err := durable.Write(filepath.Join(path, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

func TestRename(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := durable.Write(from, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, to, 0o600)
	back := filepath.Join(filepath.Dir(to), "back")
	if err := durable.RenameFile(to, back); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, back, 0o600)
	if err := durable.RenameFile(to, back); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("within a folder, of a file that is not there: %v", err)
	}
	if err := durable.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
}

func TestSync(t *testing.T) {
	folder := t.TempDir()
	if err := durable.Sync(folder); err != nil {
		t.Error(err)
	}
	if err := durable.Sync(filepath.Join(folder, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
}

func TestCheckRoom(t *testing.T) {
	folder := t.TempDir()
	room, err := durable.RoomAt(folder)
	if err != nil || room.Free <= 0 || room.Total < room.Free || room.ReadOnly {
		t.Fatalf("%+v, %v", room, err)
	}
	if err := durable.CheckRoom(folder, 1); err != nil {
		t.Error(err)
	}
	if err := durable.CheckRoom(folder, 1<<60); !fault.Is(err, fault.Unavailable) {
		t.Errorf("for more than there is: %v", err)
	}
	if err := durable.CheckRoom(filepath.Join(folder, "none"), 1); !fault.Is(err, fault.Unavailable) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}
