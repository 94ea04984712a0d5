// Package need says what a test needs of the machine beyond Go. Where it is missing the
// test is skipped, with a reason that begins with "needs", so that somebody with make and Go
// alone can run the rest. [Required] turns that around: "make check" installs all of it,
// and there a test that is skipped would hide a gap.
//
// No other code skips a test.
package need

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Variables that scripts/check sets.
const (
	// Required makes what is missing a failure.
	Required = "GATEHOUSETEST_REQUIRED"
	// Machine changes when programs are installed. Reading it tells go test that a cached
	// result, such as a skipped test, is no longer worth anything then.
	Machine = "GATEHOUSETEST_MACHINE"
)

// Program needs programs, each by its name. It also looks where PATH of users other than
// root has no sbin, and returns the path of the first.
func Program(t testing.TB, names ...string) (path string) {
	t.Helper()
	_ = os.Getenv(Machine)
	var missing []string
	for _, name := range names {
		found := find(name)
		if found == "" {
			missing = append(missing, name)
		}
		if path == "" {
			path = found
		}
	}
	if len(missing) > 0 {
		lack(t, strings.Join(missing, " and "))
	}
	return path
}

// find returns the path of a program; "" where it is not installed.
func find(name string) string {
	for _, place := range []string{name, "/usr/local/sbin/" + name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	return ""
}

// Root needs root.
func Root(t testing.TB) {
	t.Helper()
	_ = os.Getenv(Machine)
	if os.Geteuid() != 0 {
		lack(t, "root")
	}
}

// Namespaces needs namespaces of the test's own: root, or a system on which users may make
// them. As root in such a namespace nothing is missing.
func Namespaces(t testing.TB) {
	t.Helper()
	_ = os.Getenv(Machine)
	if os.Geteuid() == 0 {
		return
	}
	cmd := exec.CommandContext(t.Context(), "true")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if cmd.Run() != nil {
		lack(t, "root, or namespaces for users")
	}
}

// Disk skips a test whose temporary folder is in memory, which it has found out itself. That
// is no gap for "make check" to close: TMPDIR names the folder.
func Disk(t testing.TB) {
	t.Helper()
	t.Skip("needs a temporary folder on a disk")
}

// lack skips the test, or ends it where all is required.
func lack(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(Required) != "" {
		t.Fatalf("needs %s: run scripts/setup", what)
	}
	t.Skip("needs " + what)
}
