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

// peer is the process at the other end of a connection of the admin socket, as
// the kernel saw it when it connected.
type peer struct {
	uid, gid int
	owner    int // the user of the gateway
	group    int // the group of the socket, or noGroup
	account  func() *user.User
	allowed  func() bool // whether the peer may administer
}

// peerConn is a connection of the admin socket.
type peerConn struct {
	net.Conn
	peer *peer // nil when the kernel would not say
}

// peerKey is the key of a connection's peer in its context.
type peerKey struct{}

// ConnContext passes the credentials of a connection from [Listen] on to the guard of its
// requests; it is the ConnContext of the server of the admin socket.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if pc, ok := c.(*peerConn); ok && pc.peer != nil {
		return context.WithValue(ctx, peerKey{}, pc.peer)
	}
	return ctx
}

func peerOf(ctx context.Context) *peer {
	p, _ := ctx.Value(peerKey{}).(*peer)
	return p
}

// identify asks the kernel who connected.
func identify(c *net.UnixConn, owner, group int) (*peer, error) {
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

func newPeer(uid, gid, owner, group int) *peer {
	p := &peer{uid: uid, gid: gid, owner: owner, group: group, account: sync.OnceValue(func() *user.User {
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return nil
		}
		return u
	})}
	p.allowed = sync.OnceValue(p.mayAdminister) // a stream asks again and again
	return p
}

// mayAdminister reports whether the peer is root, the gateway's own user or a member of
// the socket's group.
func (p *peer) mayAdminister() bool {
	switch {
	case p.uid == 0, p.uid == p.owner:
		return true
	case p.group == noGroup:
		return false
	case p.gid == p.group:
		return true
	}
	u := p.account()
	if u == nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(p.group))
}

// name is how the journal calls the peer: "uid 1000 (porter)".
func (p *peer) name() string {
	name := "uid " + strconv.Itoa(p.uid)
	if u := p.account(); u != nil {
		name += " (" + u.Username + ")"
	}
	return name
}
