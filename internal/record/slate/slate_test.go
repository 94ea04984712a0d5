package slate_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/record/slate"
)

// board is a data directory and a runtime directory.
type board struct {
	t             *testing.T
	data, runtime string
	gateway       string
}

func newBoard(t *testing.T) board {
	t.Helper()
	return board{t, t.TempDir(), t.TempDir(), "North"}
}

// path returns the path of the file beside the database, and memory that in the runtime directory.
func (b board) path() string { return filepath.Join(b.data, "gatehouse.db.revocations") }

func (b board) memory() string { return filepath.Join(b.runtime, "revocations") }

// damage flips a bit of a file, whose first bytes are those of its first half.
func (b board) damage(path string, at int) {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		text[at] ^= 1
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// holds opens the slate, as a start does, and requires what it holds.
func (b board) holds(want string) *slate.Slate {
	b.t.Helper()
	read, unread := slate.Read(b.data, b.runtime, b.gateway)
	s, held, err := slate.Open(b.data, b.runtime, b.gateway)
	if err != nil || string(held) != want || unread != nil || string(read) != want {
		b.t.Errorf("the slate holds %q, %v; read %q, %v; want %q", held, err, read, unread, want)
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
	if err := os.Remove(b.memory()); err != nil { // the board was restarted
		t.Fatal(err)
	}
	s = b.holds("four")
	b.hold(s, "", true)
	b.holds("")
}

// A write that was cut off leaves the state before it, and it is known that one was.
func TestSlate_torn(t *testing.T) {
	b := newBoard(t)
	s := b.holds("")
	b.runtime = ""
	b.hold(s, "one", true)
	before, err := os.ReadFile(b.path())
	if err != nil {
		t.Fatal(err)
	}
	b.hold(s, "one and two", true)
	after, err := os.ReadFile(b.path())
	if err != nil || len(after) != len(before) {
		t.Fatalf("the file has %d bytes, and %d before: %v", len(after), len(before), err)
	}
	first := 0
	for before[first] == after[first] {
		first++
	}
	for cut := first + 1; !bytes.Equal(before[:cut], after[:cut]) && !bytes.Equal(before[cut:], after[cut:]); cut++ {
		torn := append(bytes.Clone(after[:cut]), before[cut:]...)
		if err := os.WriteFile(b.path(), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if held, err := slate.Read(b.data, b.runtime, b.gateway); !errors.Is(err, slate.ErrDamaged) || string(held) != "one" {
			t.Fatalf("cut off at %d: %q, %v", cut, held, err)
		}
	}
}

// What the files hold of another gateway is ignored.
func TestSlate_otherGateway(t *testing.T) {
	b := newBoard(t)
	b.hold(b.holds(""), "remove the account", true)
	b.holds("remove the account")
	b.gateway = "South"
	s := b.holds("")
	b.hold(s, "another", true)
	b.hold(s, "a third", false)
	b.holds("a third")
}

// What is damaged is reported, whatever else is whole, and hides nothing that can be read. The
// next write makes the files whole.
func TestSlate_damaged(t *testing.T) {
	const content, second = 72, 256 << 10 // where the content of a half is, and the second half
	for name, c := range map[string]struct {
		spoil func(board)
		want  string
	}{
		"the older half":  {func(b board) { b.damage(b.path(), content) }, "three"},
		"the newest half": {func(b board) { b.damage(b.path(), second+content) }, "two"},
		"a header":        {func(b board) { b.damage(b.path(), second+3) }, "two"},
		"too short":       {func(b board) { b.must(os.Truncate(b.path(), 200)) }, "two"},
		"empty":           {func(b board) { b.must(os.Truncate(b.path(), 0)) }, ""},
		"memory, with the file whole": {func(b board) {
			b.hold(b.holds("three"), "three", false)
			b.damage(b.memory(), content)
		}, "threetwo"},
		"the file, with memory whole": {func(b board) {
			b.hold(b.holds("three"), "four", false)
			b.must(os.WriteFile(b.path(), make([]byte, 100), 0o600))
		}, "four"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			s := b.holds("")
			for _, written := range []string{"one", "two", "three"} {
				b.hold(s, written, true)
			}
			b.must(os.Remove(b.memory()))
			c.spoil(b)
			s, held, err := slate.Open(b.data, b.runtime, b.gateway)
			if !errors.Is(err, slate.ErrDamaged) || string(held) != c.want {
				t.Errorf("%q, %v; want %q", held, err, c.want)
			}
			b.hold(s, "five", true)
			b.hold(s, "six", true)
			b.holds("six")
		})
	}
}

// A file that cannot be read, or created, does not hide what the runtime directory has. It is
// created as soon as that is possible.
func TestSlate_absent(t *testing.T) {
	b := newBoard(t)
	b.must(os.Mkdir(b.path(), 0o700))
	s, _, err := slate.Open(b.data, b.runtime, b.gateway)
	if err == nil {
		t.Error("a directory is a slate")
	}
	b.hold(s, "one", false)
	if s.Save(t.Context()) == nil {
		t.Error("saved")
	}
	if _, held, err := slate.Open(b.data, b.runtime, b.gateway); err == nil || string(held) != "one" {
		t.Errorf("%q, %v", held, err)
	}
	b.must(os.Remove(b.path()))
	b.must(s.Save(t.Context()))
	b.must(os.Remove(b.memory()))
	b.holds("one")
}

// A file that was removed while the gateway runs is there again, with what it held, without a new revocation.
func TestSlate_removed(t *testing.T) {
	for _, content := range []string{"", "one"} {
		b := newBoard(t)
		s := b.holds("")
		b.hold(s, content, true)
		b.must(os.Remove(b.path()))
		b.must(s.Save(t.Context()))
		b.must(os.Remove(b.memory()))
		if _, err := os.Stat(b.path()); err != nil {
			t.Error(err)
		}
		s = b.holds(content)
		b.must(os.Remove(b.path()))
		b.hold(s, "two", true)
		b.must(os.Remove(b.memory()))
		b.holds("two")
	}
}

func (b board) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Where no memory outlives the process, the slate does not say that it holds anything.
func TestSlate_Hold_noMemory(t *testing.T) {
	b := newBoard(t)
	b.runtime = ""
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
