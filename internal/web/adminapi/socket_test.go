package adminapi_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/web/adminapi"
)

func socketPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(shortDir(t), "admin.sock")
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestListen_modeWithoutGroup(t *testing.T) {
	old := syscall.Umask(0) // the widest
	defer syscall.Umask(old)
	path := socketPath(t)
	l, err := adminapi.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if mode := modeOf(t, path); mode.Perm() != 0o600 || mode.Type() != fs.ModeSocket {
		t.Errorf("the socket's mode is %s", mode)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the socket is there after Close")
	}
}

func TestListen_group(t *testing.T) {
	gid := os.Getgid()
	names := []string{strconv.Itoa(gid)}
	if group, err := user.LookupGroupId(names[0]); err == nil { // a group needs no name
		names = append(names, group.Name)
	}
	for _, name := range names {
		path := socketPath(t)
		l, err := adminapi.Listen(path, name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		stat, _ := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != 0o660 || int(stat.Gid) != gid {
			t.Errorf("the socket has mode %s and group %d", info.Mode(), stat.Gid)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestListen_refusals(t *testing.T) {
	folder := shortDir(t)
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, group string
		kind        fault.Kind
		want        string
	}{
		"long path":     {"/" + strings.Repeat("x", 107), "", fault.Invalid, "has 108 bytes, and Linux allows 107"},
		"unknown group": {filepath.Join(folder, "s"), "no-such-group-here", fault.Invalid, `"no-such-group-here", does not exist`},
		"no folder":     {filepath.Join(folder, "none", "s"), "", fault.Unavailable, "cannot be created at " + filepath.Join(folder, "none", "s") + ": no such file or directory"},
		"a file":        {file, "", fault.Conflict, file + " is not a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := adminapi.Listen(c.path, c.group)
			if err == nil {
				_ = l.Close()
				t.Fatal("it listens")
			}
			if !fault.Is(err, c.kind) || !strings.Contains(fault.Sentence(err), c.want) {
				t.Errorf("got %v: %v", fault.KindOf(err), err)
			}
		})
	}
	if _, err := os.Lstat(file); err != nil {
		t.Error("the file was removed")
	}
}

// The longest path that Linux takes works.
func TestListen_longestPath(t *testing.T) {
	folder := shortDir(t)
	path := filepath.Join(folder, strings.Repeat("x", 107-len(folder)-1))
	l, err := adminapi.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

// A socket that a dead gateway left behind is replaced.
func TestListen_stale(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err := adminapi.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// A second gateway leaves the first one's socket alone.
func TestListen_secondGateway(t *testing.T) {
	path := socketPath(t)
	first, err := adminapi.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = adminapi.Listen(path, "")
	if !fault.Is(err, fault.Conflict) || fault.Sentence(err) != "another gateway is running: it answers on "+path {
		t.Errorf("got %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first socket is gone: %v", err)
	} else {
		_ = conn.Close()
	}
}
