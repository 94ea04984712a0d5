package stationlink

import (
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of what is kept of a connection's reports (contract, section 2).
const (
	// ownDrift is how far the gateway's clock and a station's own may be off together,
	// in millionths, beyond the drift that the station states.
	ownDrift = 100
	// memory is how long a report counts.
	memory = 2 * time.Hour
	// spacing is how far apart the readings are that are kept: at most nine.
	spacing = memory / 8
)

// bootTime reads a monotonic clock that continues while the machine sleeps, as a
// station's uptime does. Go's own monotonic time stops meanwhile.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails only for an unknown clock
	return time.Duration(now.Nano())
}

// uptimes estimates a station's own clock from the uptimes that it has reported on one
// connection. A report travels for some time, so each is a lower bound of that clock,
// and remains one after the drift allowance of both clocks is taken off. The greatest
// of the bounds is the estimate. The zero uptimes has no readings.
type uptimes struct {
	// readings are those that are, or will be, the greatest bound: the oldest first, each
	// bounding the clock lower than those before it.
	readings []reading
	newest   int64 // the uptime that was stated last, in milliseconds
	drift    int64 // that the station has stated, in millionths
}

// reading is one uptime with the time of its arrival.
type reading struct {
	uptime  int64 // in milliseconds
	arrival time.Duration
}

// bound returns what the station's clock reads at least at a time not before the
// reading's arrival, in milliseconds, rounded down.
func (r reading) bound(at time.Duration, drift int64) int64 {
	elapsed, allowance := int64(at-r.arrival), drift+ownDrift
	lost := elapsed/1e6*allowance + (elapsed%1e6*allowance+1e6-1)/1e6 // in two parts, so that it never overflows
	return r.uptime + (elapsed-lost)/1e6
}

// add adds the uptime of a report that arrived now. If it is less than the one before,
// the station has restarted, and the readings before are dropped.
func (u *uptimes) add(stated Uptime, now time.Duration) {
	if stated.DriftStated {
		u.drift = stated.Drift
	}
	if !stated.Stated {
		return
	}
	if stated.Milliseconds < u.newest {
		u.readings = u.readings[:0]
	}
	u.newest = stated.Milliseconds
	next := reading{uptime: stated.Milliseconds, arrival: now}
	n := len(u.readings)
	for n > 0 && next.bound(now, u.drift) > u.readings[n-1].bound(now, u.drift) {
		n--
	}
	u.readings = u.readings[:n]
	if n == 0 || now-u.readings[n-1].arrival >= spacing {
		u.readings = append(u.readings, next)
	}
	u.forget(now)
}

// forget drops the readings that no longer count. It keeps the newest one, however old:
// its bound falls by the allowance, so that a station which reports too seldom refuses
// commands rather than opening late.
func (u *uptimes) forget(now time.Duration) {
	n := 0
	for n < len(u.readings)-1 && now-u.readings[n].arrival > memory {
		n++
	}
	if n > 0 {
		u.readings = append(u.readings[:0], u.readings[n:]...)
	}
}

// notAfter returns a deadline, now or later, in the station's own clock, in milliseconds
// of its uptime, rounded down; false where the station has reported no uptime.
func (u *uptimes) notAfter(deadline, now time.Duration) (uptime int64, ok bool) {
	u.forget(now)
	for _, r := range u.readings {
		uptime = max(uptime, r.bound(deadline, u.drift))
	}
	return uptime, len(u.readings) > 0
}
