package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// noGroup is the group of a socket without one.
const noGroup = -1

// peer returns the name by which the journal calls the process at the other end of a
// connection of the admin socket, "uid 1000 (porter)", and whether it may administer. Who
// that is, the kernel saw when it connected.
type peer func() (name string, allowed bool)

// peerConn is a connection of the admin socket.
type peerConn struct {
	net.Conn
	peer peer // nil when the kernel would not say
}

// peerKey is the key of a connection's peer in its context.
type peerKey struct{}

// ConnContext passes the credentials of a connection from [Listen] on to the guard of its
// requests; it is the ConnContext of the server of the admin socket.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if upper, wraps := c.(interface{ NetConn() net.Conn }); wraps {
		c = upper.NetConn()
	}
	if pc, ok := c.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, pc.peer)
	}
	return ctx
}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// identify asks the kernel who connected to the socket of that owner and group.
func identify(c *net.UnixConn, owner, group int) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reading the peer's credentials: %w", err)
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("reading the peer's credentials: %w", err)
	}
	return newPeer(int(cred.Uid), int(cred.Gid), owner, group), nil
}

// newPeer returns a peer that is looked up once, when it is asked for: a stream asks again
// and again. Root, the gateway's own user and the members of the socket's group may
// administer.
func newPeer(uid, gid, owner, group int) peer {
	return sync.OnceValues(func() (name string, allowed bool) {
		name, allowed = "uid "+strconv.Itoa(uid), uid == 0 || uid == owner || group != noGroup && gid == group
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return name, allowed
		}
		if !allowed && group != noGroup {
			groups, err := u.GroupIds()
			allowed = err == nil && slices.Contains(groups, strconv.Itoa(group))
		}
		return name + " (" + u.Username + ")", allowed
	})
}
