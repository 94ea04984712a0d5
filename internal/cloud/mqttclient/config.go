package mqttclient

import (
	"context"
	"net"
	"time"

	"gatehouse/internal/site"
)

// Broker is where a broker is and how to log in, as a configuration states it.
type Broker struct {
	URL      string // see [ParseURL]; "": there is none
	ClientID string
	Username string
	Password site.Secret // wins over PasswordFile; needs a Username, as PasswordFile does

	// Files, read anew by each [Dial], so that renewed ones are taken up. PasswordFile
	// holds one line; the others are PEM. Without CA the system's roots count.
	PasswordFile, CA, Certificate, Key string

	Keepalive time.Duration // 1 s to 18 h, in whole seconds
}

// Config is a broker and what to take from it.
type Config struct {
	Broker

	// Find returns the file that a path of Broker means; nil: the path itself.
	Find func(path string) (string, error)

	Now  func() time.Time // by which certificates are judged: the later of clock and time floor; nil: time.Now
	Will *Message         // what the broker publishes when the connection breaks; nil: nothing

	// Topics are subscribed to at QoS 1 before Dial returns; exact or with wildcards. A
	// broker may send messages on other topics too.
	Topics []string

	// Optional are subscribed to after Topics; that the broker refuses one is no error. Some
	// brokers end the connection instead, which fails at [StepSubscribe].
	Optional []string

	// Receive takes each message that comes in, one after the other as the broker sent them,
	// also before Dial returns and never after the connection is over; it may be nil without
	// Topics. The connection is not read on meanwhile, and the broker gets its
	// acknowledgement when Receive returns. It must not call Close, nor wait for a Delivery.
	Receive func(Message)

	// PerSecond and Burst bound the messages that come in: beyond them the connection
	// is read more slowly. 0: 300 and 600.
	PerSecond float64
	Burst     int

	// MaxPayload bounds a payload that comes in, in bytes: of a longer one Receive gets
	// the first MaxPayload+1 bytes, so that it can detect it. 0: 8 KiB; at most 1 MiB.
	MaxPayload int

	// Connected is called before each login, with whether the broker is known to be the one
	// that is meant: by its certificate, or because it is on this machine. Elsewhere any
	// machine that answers at its address gets the password. Nil: nobody asks.
	Connected func(authenticated bool)

	// Lookup finds the addresses of a host name; nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Open opens the connection to one address, below TLS; nil: the system's dialer.
	Open func(ctx context.Context, network, address string) (net.Conn, error)
}

// Message is one MQTT message.
type Message struct {
	Topic    string
	Payload  []byte
	QoS      byte // 0 or 1
	Retained bool
}
