package httpapi

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"
)

// isWaiting reports whether the client of a request still waits for the answer. A
// request may have waited in a dead link, or in the socket of a frozen process, with
// the client's FIN right behind it. The request's context ends when net/http has read
// the FIN, which takes a moment; the kernel knows it at once.
func isWaiting(r *http.Request) bool {
	return r.Context().Err() == nil && !hasHungUp(r.Context())
}

// hasHungUp reports whether the other side of the request's connection has closed it, as
// far as the kernel knows (poll(2), POLLRDHUP).
func hasHungUp(ctx context.Context) bool {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn }) // TLS, and our own
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	hungUp := false
	err = raw.Control(func(fd uintptr) {
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor is small
		n, err := unix.Poll(fds[:], 0)
		hungUp = n > 0 && err == nil
	})
	return hungUp || err != nil
}
