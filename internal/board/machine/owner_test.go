package machine_test

import (
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/test/need"
)

// The owner is the first user on the way who is not root, also behind links.
func TestOwnerOf(t *testing.T) {
	need.Root(t) // only root can change owners, and only root asks
	root := t.TempDir()
	path := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	for _, name := range []string{"ours", "theirs/below", "others"} {
		if err := os.MkdirAll(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"absolute": path("theirs/below"), "relative": "theirs", "theirs/to-root": path("ours"), "loop": "loop", "up": "ours/../theirs",
	} {
		if err := os.Symlink(target, path(link)); err != nil {
			t.Fatal(err)
		}
	}
	const them, other = 54321, 54322
	for name, uid := range map[string]int{"theirs": them, "others": other} {
		if err := os.Lchown(path(name), uid, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{
		"ours": 0, "ours/none/yet": 0, "theirs": them, "theirs/below": them, "theirs/none": them, "others": other,
		"absolute": them, "relative/below": them, "theirs/to-root": them, "up": them,
	} {
		got, err := machine.OwnerOf(path(name))
		if err != nil || got.UID != want || got.GID != want { // an unknown user, in the group of root's file
			t.Errorf("%s: %+v, %v; want %d", name, got, err, want)
		}
	}
	if _, err := machine.OwnerOf(path("loop")); err == nil {
		t.Error("a loop has an owner")
	}
}
