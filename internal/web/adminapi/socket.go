package adminapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// maxPath is the longest path of a Unix socket on Linux (unix(7)), in bytes.
const maxPath = 107

// probeTimeout is how long a socket that exists may take to accept.
const probeTimeout = time.Second

// Listen creates the admin socket at path, for its owner alone or, with a group (a
// name or a number), for that group too. A socket of a gateway that was killed is
// replaced. Closing the listener removes the socket.
//
// Errors: Conflict when a gateway answers on path, or path is not a socket; Invalid for a
// path that is too long or a group that does not exist; Unavailable otherwise.
func Listen(path, group string) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fault.New(fault.Invalid, fmt.Sprintf(
			"the path of the admin socket has %d bytes, and Linux allows %d: set a shorter one (%s)", len(path), maxPath, path))
	}
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := bind(path, gid)
	if err != nil {
		return nil, unusable(path, err)
	}
	return l, nil
}

func unusable(path string, err error) error {
	return fault.Wrap(fault.Unavailable, "the admin socket cannot be created at "+path+": "+reason(err), err)
}

// reason words an error of the system without the path, which precedes it.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

func groupID(group string) (int, error) {
	if group == "" {
		return noGroup, nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		found, err = user.LookupGroupId(group)
	}
	if err != nil {
		return 0, fault.Wrap(fault.Invalid, fmt.Sprintf("the group of the admin socket, %q, does not exist on this system", group), err)
	}
	return strconv.Atoi(found.Gid)
}

// clearStale removes a socket on which no gateway answers.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unusable(path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fault.New(fault.Conflict, path+" is not a socket: remove it, or set another path for the admin socket")
	}
	conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // it answers, or its queue is full
		return fault.New(fault.Conflict, "another gateway is running: it answers on "+path)
	}
	if err := os.Remove(path); err != nil {
		return unusable(path, err)
	}
	return nil
}

// bind creates the socket so that at no moment more users can connect than may,
// whatever the umask: Linux creates the file with the mode of the socket before it is
// bound (unix_bind).
func bind(path string, gid int) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	inner, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l := &listener{UnixListener: inner.(*net.UnixListener), owner: os.Geteuid(), group: gid} //nolint:forcetypeassert // of network "unix"
	if err := admit(path, gid); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// admit lets a group connect.
func admit(path string, gid int) error {
	if gid == noGroup {
		return nil
	}
	if gid != os.Getegid() { // which the socket has already; a sandbox may forbid to change groups
		if err := os.Lchown(path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, 0o660) //nolint:gosec // its group may connect
}

// listener is the admin socket. Closing it removes the socket before it refuses clients,
// so that no other gateway has taken the path by then.
type listener struct {
	*net.UnixListener
	owner, group int
}

// Accept returns connections that know their peer.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	p, _ := identify(c, l.owner, l.group) // the door admits nobody without credentials
	return &peerConn{Conn: c, peer: p}, nil
}
