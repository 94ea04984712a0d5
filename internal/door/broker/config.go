package broker

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Config is what a [Server] needs; all of it.
type Config struct {
	Authenticator Authenticator
	Handler       Handler
	Limits        Limits
	Logger        *slog.Logger
	Metrics       *metric.Registry

	// Handshakes has made the configuration of the TLS listeners, and orders their
	// handshakes.
	Handshakes *admission.Handshakes
}

// Limits bound what the outside can take. Each is above zero.
type Limits struct {
	// Connections is how many connections may be open. One more evicts a connection
	// that has not sent its CONNECT (see [limit.Pool]); where all have, it is reset at
	// once.
	Connections int
	// ConnectionsPerAddress is the same for one client address. It is wide, because
	// many stations may stand behind one. Loopback has no bound of its own.
	ConnectionsPerAddress int
	// ConnectTimeout runs from the accepted connection to the first byte of the TLS
	// handshake, from the turn of the handshake to its end, and from there, or without
	// TLS from the accepted connection, to the complete CONNECT.
	ConnectTimeout time.Duration
	// PacketsPerSecond is how many packets a connection may send of its own accord,
	// sustained; four times as many at once. Answers to commands do not count.
	// Beyond, the station is read no faster, so that TCP slows it down.
	PacketsPerSecond float64
	// WriteTimeout is how long one packet may take to be written. Beyond, the
	// connection is reset.
	WriteTimeout time.Duration
	// PacketSize is the largest whole packet in bytes. A larger one ends the
	// connection, before it is read. It has room for a CONNECT with the longest secret.
	PacketSize uint32
}

// Authenticator decides who may connect. It is called concurrently, and while a
// station waits: it must be quick.
type Authenticator interface {
	// Authenticate reports whether secret is the secret of the station, and under
	// which generation of it; the connection carries the generation on.
	Authenticate(id site.StationID, secret site.Secret) (generation uint64, ok bool)
}

// Handler receives the stations' connections and what comes over them;
// [stationlink.Link] satisfies most of it. Its methods are called concurrently, one at a
// time for each connection. They must return quickly: while one runs, that station is not
// read.
type Handler interface {
	// Connected comes when a session is established and its CONNACK written. For
	// one station it is called in the order in which connections took over from
	// each other. A connection that took over replaces the one before it, whose end is
	// not announced. An error ends the connection in a reset.
	Connected(c stationlink.Conn) error
	// Disconnected comes when the station has no connection any more: exactly once for
	// the connection that Connected took last (returned nil), also where a later one
	// took over from it and ended before it was established. The reason is a constant
	// sentence, or the one given to [Conn.Reset].
	Disconnected(c stationlink.Conn, reason string)
	// Heard comes for every packet after CONNECT, before it is acted upon.
	Heard(c stationlink.Conn)
	// Received comes for each message to a topic that [stationlink.Topics] allow, before
	// it is acknowledged. The payload may be kept. again reports whether the station says
	// that it has sent the message before (DUP).
	Received(c stationlink.Conn, topic string, payload []byte, again bool)
	// Acknowledged comes for each PUBACK, whether or not a command bears that
	// packet id; reason is 0 in MQTT 3.1.1.
	Acknowledged(c stationlink.Conn, packetID uint16, reason byte)
	// TooSmall comes for a station that is refused, although its secret is right: it
	// takes packets of so many bytes, and a command needs up to need.
	TooSmall(id site.StationID, takes, need uint32)
}

// Listener is a socket that stations connect to.
type Listener struct {
	Net net.Listener
	TLS *tls.Config // nil: plain
}
