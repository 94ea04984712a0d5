// Package admission orders the TLS handshakes of a processor that is too slow for all of
// them, and says what the kernel knows of a connection. Packages broker and kit use it. It
// starts no goroutine.
//
// The promise: no number of clients that have not logged in makes another client wait.
package admission

import (
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"gatehouse/internal/limit"
)

// Handshakes lets only as many TLS handshakes compute at once as the processor can. The
// others wait before their ClientHello is read, when they have cost next to nothing. They
// have turns by network, within it by address; of one address the newest handshake comes
// first: its client still waits for the answer, while the oldest is about to time out. A
// client that has disconnected is skipped. So a processor that is too slow for all spends
// its time on handshakes that complete.
//
// A turn lasts from the ClientHello until the server has answered it, or waits for the
// rest of it, so that no client can prolong it. Safe for concurrent use.
type Handshakes struct {
	*limit.Queue[netip.Addr]
	timeout time.Duration
}

// NewHandshakes returns a gate with that many turns; timeout bounds a handshake from
// its turn on. Fewer turns than 1 count as 1.
func NewHandshakes(turns int, timeout time.Duration) *Handshakes {
	return &Handshakes{limit.NewQueue[netip.Addr](turns, limit.NewestFirst, nil), timeout}
}

// Config returns base for listeners whose connections come from [Handshakes.Conn].
// Listeners that share the result share its session tickets.
func (h *Handshakes) Config(base *tls.Config) *tls.Config {
	gated := base.Clone()
	gated.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if c, ok := layer[*Conn](hello.Conn); ok && !c.turn.Load() {
			return nil, c.await() // without an error as crypto/tls has it: the same configuration
		}
		return nil, nil //nolint:nilnil // the same
	}
	return gated
}

// Conn wraps raw for the server side of a TLS session. After the handshake call
// [Conn.Done], unless the next call on the connection is Read or Close.
func (h *Handshakes) Conn(raw net.Conn) *Conn {
	return &Conn{Conn: raw, gate: h}
}
