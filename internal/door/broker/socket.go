package broker

import (
	"errors"
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

// socket is the TCP socket of an accepted connection. That of another kind of connection,
// such as a pipe in a test, does nothing.
type socket struct {
	tcp *net.TCPConn
	raw syscall.RawConn
}

func socketOf(conn net.Conn) (s socket) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		s.tcp = tcp
		s.raw, _ = tcp.SyscallConn() // never fails for an accepted connection
	}
	return s
}

// prepare sets the options of an accepted socket. It lingers for 0 s from the start: if
// the process is killed, the kernel resets the connection too, and drops commands that it
// has not delivered.
func (s socket) prepare() error {
	if s.tcp == nil {
		return nil
	}
	s.linger(lingerReset)
	probes := net.KeepAliveConfig{Enable: true, Idle: probeIdle, Interval: probeInterval, Count: probeCount}
	return errors.Join(s.tcp.SetKeepAliveConfig(probes), s.setUserTimeout(userTimeout))
}

// setUserTimeout sets for how long the kernel keeps sending bytes that the station's kernel
// does not acknowledge (tcp(7), TCP_USER_TIMEOUT).
func (s socket) setUserTimeout(d time.Duration) error {
	var failed error
	err := s.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, failed)
}

// linger sets for how long the socket goes on sending when it is closed.
func (s socket) linger(seconds int) {
	if s.tcp != nil {
		_ = s.tcp.SetLinger(seconds) // fails only on a closed socket
	}
}

// endReading makes reads fail at once that find nothing received, and reports whether it could.
func (s socket) endReading() bool { return s.tcp != nil && s.tcp.CloseRead() == nil }

// unsent reports whether there are bytes that the peer's kernel has not
// acknowledged (tcp(7), SIOCOUTQ).
func (s socket) unsent() bool {
	if s.tcp == nil {
		return false
	}
	var queued int
	var failed error
	err := s.raw.Control(func(fd uintptr) { queued, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return err != nil || failed != nil || queued > 0
}

// patience is the user timeout of a socket. While a command is in flight, that is no
// longer than to its deadline, even if this process is frozen meanwhile. It is not safe
// for concurrent use.
type patience struct {
	socket socket
	now    time.Duration // what is set; zero: userTimeout
	until  time.Time     // when the last command in flight is over
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
	if p.now != d && p.socket.tcp != nil {
		p.now = d
		_ = p.socket.setUserTimeout(d) // a closed socket fails in the write
	}
}
