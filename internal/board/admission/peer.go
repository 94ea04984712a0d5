package admission

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// unmeasured is how long an answer takes at most on a connection without a measured
	// round trip, which is one that was accepted with a SYN cookie.
	unmeasured = 300 * time.Millisecond
	// reaction is how long the kernels of both ends take with a segment.
	reaction = 5 * time.Millisecond
	// tick is the coarsest clock of a kernel that we run on.
	tick = 10 * time.Millisecond
)

// Acknowledge has the kernel acknowledge now what the client has sent, instead of up to
// 40 ms later, and returns how long it then takes until everything has arrived that the
// client's kernel could send only after this acknowledgement: a round trip with its spread,
// as measured on the connection. Zero for a connection that is not TCP.
func Acknowledge(conn net.Conn) time.Duration {
	var answer time.Duration
	_ = control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
		answer = roundTrip(info)
	})
	return answer
}

// roundTrip returns the longest round trip to be expected. Its spread is the smaller of two
// estimates, because each is too large by itself: the mean contains the time by which the
// client delays its acknowledgements, and the deviation begins with half a round trip.
func roundTrip(info *unix.TCPInfo) time.Duration {
	if info.Rtt == 0 {
		return unmeasured
	}
	least, mean, deviation := microseconds(info.Min_rtt), microseconds(info.Rtt), microseconds(info.Rttvar)
	least = min(least, mean)
	return least + min(3*(mean-least), 4*deviation) + reaction
}

func microseconds(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }

// Age returns how long ago at least the kernel received the last bytes of a TCP connection,
// or accepted it; zero if that cannot be known.
func Age(conn net.Conn) (age time.Duration) {
	_ = control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			age = max(0, time.Duration(info.Last_data_recv)*time.Millisecond-tick)
		}
	})
	return age
}

// Received returns how many bytes the kernel has received on a TCP connection, read or
// not; false if that cannot be known.
func Received(conn net.Conn) (bytes uint64, known bool) {
	_ = control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			bytes, known = info.Bytes_received, true
		}
	})
	return bytes, known
}

// HungUp reports whether the client has closed or reset a connection, even if there are
// bytes before that which were not read yet (poll(2), POLLRDHUP). False if that cannot be
// known.
func HungUp(conn net.Conn) bool {
	over := false
	err := control(conn, func(fd int) {
		poll := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor is small
		n, err := unix.Poll(poll[:], 0)
		over = err == nil && n > 0 // the kernel adds POLLHUP and POLLERR by itself
	})
	return over || err != nil
}

// control calls f with the descriptor of a connection, if it has one. The error is that of
// a connection that is closed.
func control(conn net.Conn, f func(fd int)) error {
	handle := handleOf(conn)
	if handle == nil {
		return nil
	}
	return handle.Control(func(fd uintptr) { f(int(fd)) }) //nolint:gosec // a descriptor is small
}

// Queued reports whether connections may wait to be accepted; true if that cannot be known.
func Queued(l net.Listener) bool {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return true
	}
	handle, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	n := 1
	_ = handle.Control(func(fd uintptr) {
		poll := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor is small
		n, err = unix.Poll(poll[:], 0)
	})
	return err != nil || n > 0
}
