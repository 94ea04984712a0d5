package adminapi

import "context"

// Peer reports whether a peer would be admitted, and its name.
func Peer(uid, gid, owner, group int) (allowed bool, name string) {
	name, allowed = newPeer(uid, gid, owner, group)()
	return allowed, name
}

// PeerContext returns a context of a connection from that peer.
func PeerContext(ctx context.Context, uid, gid, owner, group int) context.Context {
	return ConnContext(ctx, &peerConn{peer: newPeer(uid, gid, owner, group)})
}

// NoGroup is a socket without a group.
const NoGroup = noGroup
