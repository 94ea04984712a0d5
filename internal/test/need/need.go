// Package need names the requirements of a test beyond Go. Where one is missing the test is
// skipped, with a reason that begins with "needs": make and Go are enough to run the rest.
// With [Required] it fails instead: "make check" installs all requirements, and a skipped
// test would hide a gap there.
//
// No other code skips a test.
package need

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Variables that scripts/check sets.
const (
	// Required makes what is missing a failure.
	Required = "GATEHOUSETEST_REQUIRED"
	// Machine changes when programs are installed. A test that reads it is run again then,
	// although go test has a cached result.
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
	// Some systems let users make a namespace and refuse its root the rest.
	cmd := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "none", "/tmp")
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if cmd.Run() != nil {
		lack(t, "root, or namespaces for users")
	}
}

// Disk is called by a test that has found its temporary folder in memory.
func Disk(t testing.TB) {
	t.Helper()
	lack(t, "a temporary folder on a disk, named by TMPDIR")
}

// lack skips the test, or ends it where all is required.
func lack(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(Required) != "" {
		t.Fatalf("needs %s; scripts/setup installs programs", what)
	}
	t.Skip("needs " + what)
}
