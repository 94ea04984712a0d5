package stationsim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/site"
)

// Broker is where stations connect to.
type Broker struct {
	Address string      // host:port
	TLS     *tls.Config // nil: plain TCP

	// Dial opens the TCP connection; nil takes a plain [net.Dialer]. It lets a test
	// hold the connection in its hands, to stall or cut it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Faults make a station misbehave. The zero Faults are none.
type Faults struct {
	Drop float64       // probability that a command is lost: neither acknowledged nor acted upon
	Jam  float64       // probability that the lock jams instead of opening
	Slow time.Duration // the wait before a command is acknowledged and acted upon
}

func (f Faults) check() error {
	if f.Drop < 0 || f.Drop > 1 || f.Jam < 0 || f.Jam > 1 {
		return errors.New("a probability lies between 0 and 1")
	}
	if f.Slow < 0 {
		return errors.New("the slowness cannot be negative")
	}
	return nil
}

// Backoff bounds the pauses between attempts to connect. Each pause is random
// between half of and the whole bound, which doubles from Min up to Max.
type Backoff struct {
	Min time.Duration // default 250 ms
	Max time.Duration // default 30 s
}

// Config describes one station. ID, Secret and Broker.Address are required.
type Config struct {
	Broker Broker
	ID     site.StationID
	Secret site.Secret
	Locks  int // default 1

	Relock      time.Duration // an opened lock locks again after it; default 5 s
	Actuation   time.Duration // how long the motor of a lock runs; default 300 ms
	ReportEvery time.Duration // default 60 s
	Drain       float64       // of the battery, in volts per hour; default 0.01
	Backoff     Backoff
	Faults      Faults

	// Uptime is the station's own monotonic clock since its start, sleep included; default:
	// the machine's, since New.
	Uptime func() time.Duration

	Random *rand.Rand // owned by the station; default seeded at random

	// OnEvent is called with everything that the station does, in order; it should return at
	// once. May be nil.
	OnEvent func(Event)

	startDelay time.Duration // the wait before the first connection
	gate       chan struct{} // its capacity bounds how many stations connect at once; nil: no bound
}

// connectTimeout bounds one attempt to connect, up to the CONNACK; the broker
// allows a CONNECT 5 s (contract, section 2).
const connectTimeout = 10 * time.Second

// bootTime reads a monotonic clock that continues while the machine sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails only for an unknown clock
	return time.Duration(now.Nano())
}

// withDefaults fills in what was left open.
func (c Config) withDefaults() Config {
	orDefault(&c.Locks, 1)
	orDefault(&c.Relock, 5*time.Second)
	orDefault(&c.Actuation, 300*time.Millisecond)
	orDefault(&c.ReportEvery, time.Minute)
	orDefault(&c.Drain, 0.01)
	orDefault(&c.Backoff.Min, 250*time.Millisecond)
	orDefault(&c.Backoff.Max, 30*time.Second)
	if c.Uptime == nil {
		started := bootTime()
		c.Uptime = func() time.Duration { return bootTime() - started }
	}
	if c.Random == nil {
		c.Random = rand.New(rand.NewPCG(rand.Uint64(), uint64(c.ID))) //nolint:gosec // plays hardware, guards nothing
	}
	if c.Broker.Dial == nil {
		c.Broker.Dial = (&net.Dialer{}).DialContext
	}
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) check() error {
	switch {
	case !c.ID.Valid():
		return fmt.Errorf("station id %d is not a number from 1 to %d", c.ID, site.MaxStationID)
	case c.Broker.Address == "":
		return errors.New("no broker address")
	case c.Locks < 0 || c.Locks > site.MaxLocks:
		return fmt.Errorf("a station has 1 to %d locks", site.MaxLocks)
	case c.Relock < 0 || c.Actuation < 0 || c.ReportEvery < 0:
		return errors.New("a duration cannot be negative")
	}
	return c.Faults.check()
}
