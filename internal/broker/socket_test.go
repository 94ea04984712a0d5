package broker_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/broker"
)

// tapped is a listener that lets a test see what was accepted.
type tapped struct {
	net.Listener
	accepted chan *net.TCPConn
}

func (l tapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		l.accepted <- tcp
	}
	return conn, err
}

// The kernel is told to notice dead stations, and to reset the connection whoever
// closes it.
func TestServer_socketOptions(t *testing.T) {
	l := tapped{listen(t), make(chan *net.TCPConn, 1)}
	g := open(t, setup{listeners: []broker.Listener{{Net: l}}})
	g.address = l.Addr().String()
	c := g.connect(1, 4)
	raw, err := (<-l.accepted).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for name, option := range map[string]struct{ level, name, want int }{
			"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60},
			"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
			"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
			"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30_000},
			"TCP_NODELAY":      {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		} {
			if got, err := unix.GetsockoptInt(int(fd), option.level, option.name); err != nil || got != option.want {
				t.Errorf("%s is %d, %v; want %d", name, got, err, option.want)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c.ping()
}
