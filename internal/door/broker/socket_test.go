package broker_test

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/test/await"
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

// The kernel is told to notice dead stations, and to reset the connection when the process that
// closes it is killed.
func TestServer_socketOptions(t *testing.T) {
	l := tapped{listen(t), make(chan *net.TCPConn, 1)}
	g := open(t, setup{listeners: []broker.Listener{{Net: l}}})
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

// While a command is in flight the kernel goes on sending for as long as the command says,
// and no longer; then as before.
func TestConn_Send_patience(t *testing.T) {
	l := tapped{listen(t), make(chan *net.TCPConn, 1)}
	g := open(t, setup{listeners: []broker.Listener{{Net: l}}})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	raw, err := (<-l.accepted).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want time.Duration) {
		t.Helper()
		var got int
		if err := raw.Control(func(fd uintptr) {
			got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		}); err != nil {
			t.Fatal(err)
		}
		if time.Duration(got)*time.Millisecond != want {
			t.Errorf("%s: the kernel has %d ms, want %v", when, got, want)
		}
	}
	send := func(id uint16, patience time.Duration) {
		t.Helper()
		if err := conn.Send(id, 1, saysFor("open", patience), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		c.readCommand(1)
	}
	send(1, 3270*time.Millisecond)
	expect("the first command", 3200*time.Millisecond)
	send(2, 4999*time.Millisecond)
	c.ping()
	expect("a PINGRESP while a command is in flight", 4900*time.Millisecond)
	conn.Expire()
	c.ping()
	expect("a PINGRESP after that", 30*time.Second)
}

// What it costs that the kernel's patience changes with each command.
func BenchmarkConn_Send_patience(b *testing.B) {
	for name, step := range map[string]time.Duration{"same": 0, "changing": 100 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			g := open(b, setup{})
			c, conn := g.connectAndSubscribe(1, 4, 1)
			go func() { _, _ = io.Copy(io.Discard, c.conn) }()
			b.ReportAllocs()
			patience := 4 * time.Second
			say := func(p []byte) ([]byte, time.Duration, error) { return append(p, payload...), patience, nil }
			for b.Loop() {
				step = -step
				patience += step
				if err := conn.Send(1, 1, message(say), await.Deadline()); err != nil {
					b.Fatal(err)
				}
			}
			g.stop()
		})
	}
}
