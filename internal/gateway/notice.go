package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
)

// The bounds of a notice on the text console.
const (
	maxNotice      = 2 << 10 // bytes
	maxNoticeLines = 40
	maxNoticeLine  = 120 // bytes
)

// ReadNotice reads the notice for the text console (see [setupFiles]) for root, who
// trusts neither its text nor where it is: its folder is the service's user's. A link,
// a file of another user's, or one with a second name is not read. The text is cut to a
// maximum size and to plain characters, which neither a terminal nor issue(5)
// interprets. [fs.ErrNotExist] where there is none.
func ReadNotice(path string) (string, error) {
	folder, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer func() { _ = unix.Close(folder) }()
	fd, err := unix.Openat(folder, filepath.Base(path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path) //nolint:gosec // a descriptor
	defer func() { _ = f.Close() }()
	var above, stat unix.Stat_t
	if err := errors.Join(unix.Fstat(folder, &above), unix.Fstat(fd, &stat)); err != nil {
		return "", err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Uid != above.Uid || stat.Nlink != 1 {
		return "", &os.PathError{Op: "read", Path: path, Err: syscall.EPERM}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxNotice))
	return plainNotice(string(text)), err
}

// plainNotice keeps printable ASCII and line ends. A backslash begins an escape of
// issue(5), such as the address of the machine or the text of another file.
func plainNotice(text string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxNoticeLines {
			break
		}
		plain := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' || r == '\\' {
				return -1
			}
			return r
		}, line)
		b.WriteString(plain[:min(len(plain), maxNoticeLine)] + "\n")
	}
	return b.String()
}

// lookEvery is how often ShowNotice looks for a change.
const lookEvery = time.Second

// ShowNotice writes what [ReadNotice] reads at from to the file at to, in a folder of
// root's, and calls ready with a line that describes the outcome. It removes that file and
// returns once the notice has changed or ctx has ended; at once where there is no notice.
// The error is why a notice was not shown.
//
// systemd starts it again while there is a notice (PathExists=, systemd.path(5)). It
// must run for as long as it shows one: systemd misses changes of the file that occur
// while the service runs.
func ShowNotice(ctx context.Context, from, to string, ready func(status string) error) (err error) {
	defer func() { err = errors.Join(err, removeIfThere(to)) }()
	text, unread := ReadNotice(from)
	status, failure := "Shows the notice", unread
	switch {
	case errors.Is(unread, fs.ErrNotExist):
		return ready("No notice")
	case unread == nil:
		failure = durable.Write(to, []byte(text), 0o600)
	}
	if failure != nil {
		status = "Shows nothing: " + failure.Error()
		failure = errors.Join(failure, removeIfThere(to))
	}
	if err := ready(status); err != nil {
		return err
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return failure
		case <-ticker.C:
		}
		if now, err := ReadNotice(from); now != text || fmt.Sprint(err) != fmt.Sprint(unread) {
			return failure
		}
	}
}
