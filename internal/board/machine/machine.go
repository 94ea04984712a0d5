package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxText is the most that is read of a file or of a program's output.
const maxText = 4 << 20

// killDelay is how long a program may take to end once its time is over.
const killDelay = time.Second

// Machine is a machine to look at. Its functions may be called concurrently.
type Machine struct {
	Files fs.FS // the whole tree, from "/"

	// Run runs a program and gives what it wrote to its standard output. A program
	// that does not exist gives [exec.ErrNotFound].
	Run func(ctx context.Context, program string, args ...string) (string, error)
	// Space tells of the disk that path is on.
	Space func(path string) (Space, error)
	// Real gives the path without symbolic links.
	Real func(path string) (string, error)
	// Connect opens a TCP connection and closes it again.
	Connect func(ctx context.Context, address string) error
	// Disciplined reports whether somebody keeps the kernel's clock right.
	Disciplined func() (bool, error)
	// Now is the system's time, and Uptime what its monotonic clock shows.
	Now    func() time.Time
	Uptime func() (time.Duration, error)
}

// Space is the room on a disk.
type Space struct {
	Free, Total           int64 // bytes; free for an ordinary user
	FreeInodes, AllInodes int64 // 0 of 0 where the file system does not count them
}

// This is the machine that the process runs on.
func This() Machine {
	return Machine{
		Files: os.DirFS("/"),
		Run:   run, Space: space, Real: filepath.EvalSymlinks, Connect: connect,
		Disciplined: disciplined, Now: time.Now, Uptime: uptime,
	}
}

// run runs a program in the language of its manual, so that its words can be read.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // constants of this package and of package doctor
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SYSTEMD_PAGER=", "TZ=UTC")
	cmd.WaitDelay = killDelay
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{w: &out, left: maxText}, &limited{w: &complaint, left: maxText}
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return out.String(), fmt.Errorf("running %s: %w: %s", program, err, firstLine(complaint.String()))
	}
	return out.String(), nil
}

// limited drops what is too much.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if _, err := l.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func space(path string) (Space, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		return Space{}, fmt.Errorf("asking for the room at %s: %w", path, err)
	}
	unit := int64(disk.Bsize) //nolint:unconvert // of another type on other architectures
	return Space{
		Free: int64(disk.Bavail) * unit, Total: int64(disk.Blocks) * unit,
		FreeInodes: int64(disk.Ffree), AllInodes: int64(disk.Files),
	}, nil
}

func connect(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err //nolint:wrapcheck // it names the address
	}
	return conn.Close() //nolint:wrapcheck // likewise
}

func disciplined() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, fmt.Errorf("asking the kernel for its clock: %w", err)
	}
	return t.Maxerror < maxError, nil
}

func uptime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("reading the monotonic clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// Stat tells of the file at an absolute path.
func (m Machine) Stat(path string) (fs.FileInfo, error) { return fs.Stat(m.Files, inTree(path)) }

// Exists reports whether something stands at an absolute path.
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

// Read gives the bytes of the file at an absolute path; of a large one its beginning.
func (m Machine) Read(path string) ([]byte, error) {
	f, err := m.Files.Open(inTree(path))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxText))
}

// text gives the text of a file without the white space around it, or "".
func (m Machine) text(path string) string {
	text, err := m.Read(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// inTree is an absolute path as package fs writes it.
func inTree(path string) string {
	path = strings.TrimPrefix(filepath.Clean(path), "/")
	if path == "" {
		return "."
	}
	return path
}
