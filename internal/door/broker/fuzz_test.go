package broker_test

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/test/await"
)

// unixGate is a broker behind a socket without ports, which a fuzzer would use up.
func unixGate(f *testing.F) (g *gate, dial func(t *testing.T) *client) {
	path := filepath.Join(f.TempDir(), "mqtt")
	l, err := net.Listen("unix", path)
	if err != nil {
		f.Fatal(err)
	}
	handler := newRecorder()
	g = open(f, setup{handler: handler, listeners: []broker.Listener{{Net: l}}})
	return g, func(t *testing.T) *client {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	}
}

// survive says bytes, hangs up, and proves that the next station is served and that
// nobody heard more than a station may say.
func survive(t *testing.T, g *gate, c *client, dial func(*testing.T) *client, b []byte) {
	g.handler.mu.Lock()
	g.handler.events, g.handler.heard = nil, make(map[*broker.Conn]int)
	g.handler.mu.Unlock()
	_ = c.conn.SetDeadline(await.Deadline())
	go func() {
		c.try(b)
		_ = c.conn.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(io.Discard, c.in)
	c.close()
	good := dial(t)
	good.connect(2, 5)
	good.ping()
	good.close()
}

// FuzzInbound says bytes after a valid CONNECT.
func FuzzInbound(f *testing.F) {
	for _, version := range []byte{4, 5} {
		for _, b := range hostileLater(version) {
			f.Add(version, b)
		}
		f.Add(version, subscription(version, 1, commandTopic(1), 1))
		f.Add(version, publication(version, 2, "stations/1/report", 5, "{}"))
		f.Add(version, packet(0xA2, u16(9), properties(version), text(commandTopic(1))))
		f.Add(version, []byte{0xC0, 0, 0x40, 2, 0, 1, 0xE0, 0})
	}
	g, dial := unixGate(f)
	f.Fuzz(func(t *testing.T, version byte, b []byte) {
		version = 4 + version&1
		c := dial(t)
		c.connect(1, version)
		survive(t, g, c, dial, b)
	})
}

// FuzzConnect says bytes from the first on.
func FuzzConnect(f *testing.F) {
	for _, b := range hostileFirst() {
		f.Add(b)
	}
	for _, version := range []byte{3, 4, 5, 6} {
		f.Add(helloOf(1, version).bytes())
	}
	g, dial := unixGate(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		survive(t, g, dial(t), dial, b)
	})
}
