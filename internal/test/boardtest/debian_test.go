//go:build board

package boardtest_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// include is what the boards have besides what Debian takes for essential: systemd,
// and what the package depends on. Nothing else, so that a dependency which the
// package does not name is missed.
const include = "systemd,systemd-sysv,dbus,udev"

// debians are the releases on which everything is tested.
func debians() []string { return []string{"bookworm", "trixie"} }

// onEachDebian runs the test on both.
func onEachDebian(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	t.Parallel()
	for _, suite := range debians() {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			test(t, suite)
		})
	}
}

// oneDebianAfterTheOther is for tests that are about load: nothing else runs beside
// them.
func oneDebianAfterTheOther(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	for _, suite := range debians() {
		t.Run(suite, func(t *testing.T) { test(t, suite) })
	}
}

// once makes things that several tests share, each when it is first needed.
type once struct {
	mu   sync.Mutex // guards made
	made map[string]func() (string, error)
}

// get returns what was made under the name, and makes it if nobody has.
func (o *once) get(t *testing.T, name string, do func() (string, error)) string {
	t.Helper()
	o.mu.Lock()
	if o.made == nil {
		o.made = make(map[string]func() (string, error))
	}
	if o.made[name] == nil {
		o.made[name] = sync.OnceValues(do)
	}
	get := o.made[name]
	o.mu.Unlock()
	value, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

var rootfs once

// debian returns the folder with the root file system of a release, which is only
// read.
func debian(t *testing.T, suite string) string {
	t.Helper()
	return rootfs.get(t, suite, func() (string, error) {
		archive, err := bootstrap(suite)
		if err != nil {
			return "", err
		}
		dir := filepath.Join(scratch(), suite)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
		return dir, command("tar", "--extract", "--preserve-permissions", "--numeric-owner", "--directory", dir, "--file", archive)
	})
}

// bootstrap returns the archive of a root file system in the cache, and makes it
// when it is absent.
func bootstrap(suite string) (string, error) {
	cache, err := filepath.Abs(filepath.Join(root, "build", "cache", "board"))
	if err != nil {
		return "", err
	}
	archive := filepath.Join(cache, fmt.Sprintf("%s-%.4x.tar", suite, sha256.Sum256([]byte(include))))
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	if err := build(nil, "mkdir", "--parents", cache); err != nil {
		return "", err
	}
	unfinished := filepath.Join(scratch(), suite+".tar")
	defer func() { _ = os.Remove(unfinished) }()
	err = command("nsenter", onOuterNet(), "env", "TMPDIR="+scratch(),
		"mmdebstrap", "--quiet", "--variant=minbase", "--include="+include, suite, unfinished)
	if err != nil {
		return "", err
	}
	// The cache is another file system: copy, then rename.
	copied := archive + "." + filepath.Base(scratch()) // another run may copy its own
	if err := build(nil, "cp", unfinished, copied); err != nil {
		return "", err
	}
	return archive, build(nil, "mv", copied, archive)
}

// onOuterNet is the argument with which nsenter runs a program that may need the
// network of the machine.
func onOuterNet() string { return fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), outerNet) }

// build runs what makes something in the tree, as the user who started the tests by sudo,
// with these variables.
func build(environment []string, program ...string) error {
	args := []string{onOuterNet()}
	if user := os.Getenv("SUDO_UID"); user != "" {
		args = append(args, "setpriv", "--reuid="+user, "--regid="+os.Getenv("SUDO_GID"), "--clear-groups")
	}
	args = append(append(args, "env"), environment...)
	return command("nsenter", append(args, program...)...)
}

// command runs a program to its end, in the root of the tree.
func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
