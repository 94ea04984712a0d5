package stationsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"gatehouse/internal/board/boottime"
	"gatehouse/internal/site"
)

// Broker is where stations connect to.
type Broker struct {
	Address string // host:port

	// Dial opens the connection; nil takes a plain [net.Dialer]. A [tls.Dialer] connects
	// over TLS, and a test holds the connection in its hands, to stall or cut it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Faults make a station misbehave. The zero Faults are none.
type Faults struct {
	Drop float64       // probability that a command is lost: neither acknowledged nor acted upon
	Jam  float64       // probability that the lock jams instead of opening
	Slow time.Duration // the wait before a command is acknowledged and acted upon
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
	DoorOpen    time.Duration // each lock has a sensor on its door, which a person opens a second after an unlock, for so long; 0: no sensor
	Drain       float64       // of the battery, in volts per hour; default 0.01
	Backoff     Backoff
	Faults      Faults

	// Uptime is the station's own monotonic clock since its start, sleep included; default:
	// the machine's, since New.
	Uptime func() time.Duration

	// OnEvent is called with everything that the station does, in order; it should return at
	// once. May be nil.
	OnEvent func(Event)

	gate chan struct{} // its capacity bounds how many stations connect at once; nil: no bound
}

// connectTimeout bounds one attempt to connect, up to the CONNACK; the broker
// allows a CONNECT 5 s (contract, section 2).
const connectTimeout = 10 * time.Second

// withDefaults fills in what was left open.
func (c Config) withDefaults() Config {
	c.Locks = cmp.Or(c.Locks, 1)
	c.Relock = cmp.Or(c.Relock, 5*time.Second)
	c.Actuation = cmp.Or(c.Actuation, 300*time.Millisecond)
	c.ReportEvery = cmp.Or(c.ReportEvery, time.Minute)
	c.Drain = cmp.Or(c.Drain, 0.01)
	c.Backoff.Min = cmp.Or(c.Backoff.Min, 250*time.Millisecond)
	c.Backoff.Max = cmp.Or(c.Backoff.Max, 30*time.Second)
	if c.Uptime == nil {
		started := boottime.Now()
		c.Uptime = func() time.Duration { return boottime.Now() - started }
	}
	if c.Broker.Dial == nil {
		c.Broker.Dial = (&net.Dialer{}).DialContext
	}
	return c
}

func (c Config) check() error {
	switch {
	case !c.ID.Valid():
		return fmt.Errorf("station id %d is not a number from 1 to %d", c.ID, site.MaxStationID)
	case c.Broker.Address == "":
		return errors.New("no broker address")
	case c.Locks < 0 || c.Locks > site.MaxLocks:
		return fmt.Errorf("a station has 1 to %d locks", site.MaxLocks)
	case c.DoorOpen < 0:
		return errors.New("a door is open for no less than no time")
	}
	return nil
}
