package machine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gatehouse/internal/board/durable"
)

// killDelay is how long a program may take to end once its context has ended.
const killDelay = time.Second

// Machine is a machine to examine; tests build any they like. Its functions may be called
// concurrently.
type Machine struct {
	Files fs.FS // the whole tree, from "/"

	// Run runs a program and returns what it wrote to its standard output;
	// [exec.ErrNotFound] for a program that does not exist.
	Run func(ctx context.Context, program string, args ...string) (string, error)
	// Space returns the room on the disk that path is on.
	Space func(path string) (durable.Room, error)
	// Synchronised reports whether the system considers its time right.
	Synchronised func() bool
	// Now returns the system's time.
	Now func() time.Time
}

// This returns the machine that the process runs on.
func This() Machine {
	return Machine{
		Files: os.DirFS("/"),
		Run:   run, Space: durable.RoomAt, Synchronised: kernel{}.Synchronised, Now: time.Now,
	}
}

// run runs a program in the language of its manual, so that its words can be read.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // constants of this package and of package doctor
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SYSTEMD_PAGER=", "TZ=UTC")
	cmd.WaitDelay = killDelay
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var failure *exec.ExitError // has the complaint
	if errors.As(err, &failure) {
		return string(out), fmt.Errorf("running %s: %w: %s", program, err, bytes.TrimSpace(failure.Stderr))
	}
	if err != nil {
		return string(out), fmt.Errorf("running %s: %w", program, err)
	}
	return string(out), nil
}

// Stat describes the file at an absolute path.
func (m Machine) Stat(path string) (fs.FileInfo, error) {
	return fs.Stat(m.Files, cmp.Or(strings.TrimPrefix(filepath.Clean(path), "/"), ".")) // as package fs names it
}

// Exists reports whether there is a file at an absolute path.
func (m Machine) Exists(path string) bool {
	_, err := m.Stat(path)
	return err == nil
}

// FileOwner returns the user id of a file's owner; false where the system does not say.
func FileOwner(info fs.FileInfo) (uid uint32, known bool) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid, true
	}
	return 0, false
}
