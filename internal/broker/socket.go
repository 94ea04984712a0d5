package broker

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How the kernel finds out about dead peers of accepted connections. MQTT's own
// keepalive, 10 to 120 s, comes first where it is short; the probes are sparse,
// because each wakes the radio of a station on a battery.
const (
	probeIdle     = 60 * time.Second
	probeInterval = 15 * time.Second
	probeCount    = 4
	userTimeout   = 30 * time.Second // unacknowledged for so long, the connection is dead
)

// Seconds that a closed socket goes on sending (socket(7), SO_LINGER).
const (
	lingerReset  = 0  // not at all: a reset
	lingerSystem = -1 // in the background
)

// prepare sets the options of an accepted TCP socket. It lingers for 0 s from the
// start: if the process is killed, the kernel resets the connection too, and drops
// commands that it has not delivered.
func prepare(raw net.Conn) error {
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return nil
	}
	linger(raw, lingerReset)
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: probeIdle, Interval: probeInterval, Count: probeCount,
	})
	if err != nil {
		return err
	}
	return control(tcp, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
}

// linger sets for how long the socket goes on sending when it is closed.
func linger(raw net.Conn, seconds int) {
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(seconds) // fails only on a closed socket
	}
}

// unsent reports whether there are bytes that the peer's kernel has not
// acknowledged (tcp(7), SIOCOUTQ).
func unsent(raw net.Conn) bool {
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return false
	}
	var queued int
	err := control(tcp, func(fd int) (err error) {
		queued, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		return err
	})
	return err != nil || queued > 0
}

// control calls f with the socket's descriptor.
func control(conn syscall.Conn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
