package slate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/record/slate"
)

// board is a data directory and a runtime directory.
type board struct {
	t            *testing.T
	path, memory string
}

func newBoard(t *testing.T) board {
	t.Helper()
	return board{t, filepath.Join(t.TempDir(), "slate"), filepath.Join(t.TempDir(), "slate")}
}

// holds opens the slate, as a start does, and requires what it holds.
func (b board) holds(want string) *slate.Slate {
	b.t.Helper()
	s, held, err := slate.Open(b.path, b.memory)
	if err != nil || string(held) != want {
		b.t.Errorf("the slate holds %q, %v; want %q", held, err, want)
	}
	return s
}

func (b board) hold(s *slate.Slate, content string, save bool) {
	b.t.Helper()
	err := s.Hold([]byte(content))
	if err == nil && save {
		err = s.Save(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// The newest state is held over a restart, whichever file has it.
func TestSlate(t *testing.T) {
	b := newBoard(t)
	s := b.holds("")
	b.hold(s, "one", true)
	b.hold(s, "two", false)
	s = b.holds("two")
	b.hold(s, "three", true)
	b.hold(s, "four", true)
	if err := os.Remove(b.memory); err != nil { // the board was restarted
		t.Fatal(err)
	}
	s = b.holds("four")
	b.hold(s, "", true)
	b.holds("")
}

// A write that was cut off leaves the state before it.
func TestSlate_torn(t *testing.T) {
	b := newBoard(t)
	s := b.holds("")
	b.memory = ""
	b.hold(s, "one", true)
	before, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	b.hold(s, "one and two", true)
	after, err := os.ReadFile(b.path)
	if err != nil || len(after) != len(before) {
		t.Fatalf("the file has %d bytes, and %d before: %v", len(after), len(before), err)
	}
	first := 0
	for before[first] == after[first] {
		first++
	}
	for cut := first + 1; !bytes.Equal(before[:cut], after[:cut]) && !bytes.Equal(before[cut:], after[cut:]); cut++ {
		torn := append(bytes.Clone(after[:cut]), before[cut:]...)
		if err := os.WriteFile(b.path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		b.holds("one")
	}
}

// What the runtime directory holds of another database is ignored.
func TestSlate_otherDatabase(t *testing.T) {
	b := newBoard(t)
	b.hold(b.holds(""), "remove the account", false)
	b.holds("remove the account")
	if err := os.Rename(b.path, b.path+".before-restore"); err != nil {
		t.Fatal(err)
	}
	s := b.holds("")
	b.hold(s, "another", false)
	b.holds("another")
}

// A file that is damaged does not hide what the runtime directory has.
func TestSlate_damaged(t *testing.T) {
	b := newBoard(t)
	s := b.holds("")
	b.hold(s, "one", true)
	if err := os.WriteFile(b.path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, held, err := slate.Open(b.path, b.memory); err == nil || string(held) != "one" {
		t.Errorf("%q, %v", held, err)
	}
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.path, 0o700); err != nil { // it cannot be read
		t.Fatal(err)
	}
	if _, held, err := slate.Open(b.path, b.memory); err == nil || string(held) != "one" {
		t.Errorf("unreadable: %q, %v", held, err)
	}
}

// Where no memory outlives the process, the slate does not say that it holds anything.
func TestSlate_Hold_noMemory(t *testing.T) {
	b := newBoard(t)
	b.memory = ""
	if err := b.holds("").Hold([]byte("one")); err == nil {
		t.Error("held")
	}
}

// Content without room is refused, and the one before stays.
func TestSlate_full(t *testing.T) {
	b := newBoard(t)
	s := b.holds("")
	b.hold(s, "one", true)
	if err := s.Hold(make([]byte, slate.Room+1)); err == nil {
		t.Error("more than the room is held")
	}
	if err := s.Save(t.Context()); err == nil {
		t.Error("more than the room is saved")
	}
	b.holds("one")
}
