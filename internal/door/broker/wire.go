package broker

import (
	"bytes"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2"
)

// wire is a connection as mochi sees it: it has the CONNECT to read and no more, and
// closing it does nothing. Each write is one whole packet and takes turns with the commands.
type wire struct {
	net.Conn
	c       *Conn
	connect *bytes.Reader
	client  *mqtt.Client // mochi's side of it, once it is admitted
}

// Read implements [net.Conn].
func (w *wire) Read(p []byte) (int, error) { return w.connect.Read(p) }

// Write implements [net.Conn].
func (w *wire) Write(packet []byte) (int, error) {
	if len(packet) == 0 {
		return 0, nil
	}
	if err := w.c.write(packet); err != nil {
		return 0, err
	}
	return len(packet), nil
}

// forget removes the connection from the list of mochi, which keeps some that fail.
func (w *wire) forget() {
	if w.client != nil {
		w.c.server.mochi.Clients.Delete(w.client.ID)
	}
}

// Close implements [net.Conn].
func (*wire) Close() error { return nil }

// SetDeadline implements [net.Conn]. The deadlines of mochi have no effect.
func (*wire) SetDeadline(time.Time) error { return nil }
