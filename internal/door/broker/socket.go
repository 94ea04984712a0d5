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
	userTimeout   = 30 * time.Second // unacknowledged for so long, the connection is dead; see patience
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
	return control(tcp, func(fd int) error { return setUserTimeout(fd, userTimeout) })
}

func setUserTimeout(fd int, d time.Duration) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}

// patience is how long the kernel keeps sending bytes that the station's kernel does
// not acknowledge (tcp(7), TCP_USER_TIMEOUT). While a command is in flight, that is no
// longer than to its deadline, even if this process is frozen meanwhile. It is not safe
// for concurrent use.
type patience struct {
	conn  net.Conn
	raw   syscall.RawConn  // of conn; nil until the first command
	apply func(fd uintptr) // made once, so that a command allocates nothing
	now   time.Duration    // what is set; zero: userTimeout
	until time.Time        // when the last command in flight is over
}

// patienceStep is what patience is rounded down to, so that most commands find it set.
const patienceStep = 100 * time.Millisecond

// limit sets the patience for a command that is about to be written, in flight until that
// time at the latest. It counts from when the oldest unacknowledged byte was sent.
func (p *patience) limit(d time.Duration, until time.Time) {
	if until.After(p.until) {
		p.until = until
	}
	p.set(max(d.Truncate(patienceStep), time.Millisecond))
}

// lift sets the ordinary patience again, once no command can be in flight any more.
func (p *patience) lift() {
	if p.now != 0 && !time.Now().Before(p.until) {
		p.set(userTimeout)
		p.now = 0
	}
}

func (p *patience) set(d time.Duration) {
	if p.now == d {
		return
	}
	if p.raw == nil {
		tcp, ok := p.conn.(*net.TCPConn)
		if !ok {
			return
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			return
		}
		p.raw = raw
		p.apply = func(fd uintptr) { _ = setUserTimeout(int(fd), p.now) } // a closed socket fails in the write
	}
	p.now = d
	_ = p.raw.Control(p.apply)
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
