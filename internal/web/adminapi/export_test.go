package adminapi

import (
	"context"

	"gatehouse/internal/fault"
)

// MaxStreams is how many streams may be open through one door, MaxOfAccount how many of
// one account.
const (
	MaxStreams   = maxStreams
	MaxOfAccount = maxOfAccount
)

// StatusOf is the table from kinds to statuses.
func StatusOf(kind fault.Kind) int { return statusOf(kind) }

// Peer says whether a peer would be let in, and its name.
func Peer(uid, gid, owner, group int) (allowed bool, name string) {
	p := newPeer(uid, gid, owner, group)
	return p.allowed(), p.name()
}

// PeerContext gives a context of a connection from that peer.
func PeerContext(ctx context.Context, uid, gid, owner, group int) context.Context {
	return ConnContext(ctx, &peerConn{peer: newPeer(uid, gid, owner, group)})
}

// NoGroup is a socket without a group.
const NoGroup = noGroup

// Routes lists method and path of every route.
func (a *API) Routes() (list [][2]string) {
	for _, rt := range a.routes() {
		list = append(list, [2]string{rt.method, Prefix + rt.path})
	}
	return list
}
