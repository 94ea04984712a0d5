package durable_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/test/need"
)

// renames is the folder in which the process of TestRenamed_synchronised renames files.
const renames = "DURABLE_TEST_FOLDER"

// call is where a call of the system that renames or synchronises begins, as strace prints it.
var call = regexp.MustCompile(`(rename|fsync)[a-z0-9]*\((.*)`)

// On FAT the kernel writes where a renamed file is only with the file, and its old name
// only with the folder: both are synchronised after the renaming, in this order.
func TestRenamed_synchronised(t *testing.T) {
	if folder := os.Getenv(renames); folder != "" {
		path := filepath.Join(folder, "written")
		if err := durable.Write(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := durable.RenameFile(path, filepath.Join(folder, "renamed")); err != nil {
			t.Fatal(err)
		}
		return
	}
	strace := need.Program(t, "strace")
	folder, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-o", trace, "-e", "trace=/rename.*,fsync", //nolint:gosec // this test
		os.Args[0], "-test.run=^TestRenamed_synchronised$")
	cmd.Env = append(os.Environ(), renames+"="+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for line := range strings.Lines(read(t, trace)) {
		if m := call.FindStringSubmatch(line); len(m) == 3 && strings.Contains(m[2], folder) {
			names := regexp.MustCompile(regexp.QuoteMeta(folder)+`(/[a-z.]+)?`).FindAllString(m[2], -1)
			got = append(got, m[1]+" "+filepath.Base(names[len(names)-1]))
		}
	}
	of := filepath.Base(folder)
	if want := []string{
		"fsync written.new", "rename written", "fsync written", "fsync " + of,
		"rename renamed", "fsync renamed", "fsync " + of,
	}; !slices.Equal(got, want) {
		t.Errorf("the calls are %q, want %q\n%s", got, want, read(t, trace))
	}
}
