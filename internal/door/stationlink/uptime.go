package stationlink

import "time"

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

// uptimes estimates a station's own clock from the uptimes that it has reported on one
// connection. A report travels for some time, so each is a lower bound of that clock,
// and remains one after the drift allowance of both clocks is taken off. The greatest
// of the bounds is the estimate. The zero uptimes has no readings.
type uptimes struct {
	// readings are those that are, or will be, the greatest bound: the oldest first, each
	// bounding the clock lower than those before it.
	readings []reading
	highest  reading // the greatest uptime that was stated
	drift    int64   // that the station has stated, in millionths
	original bool    // a report has come that was not sent again
	judge    judge

	before *past // nil: there was no connection before
	doubt  bool  // a report contradicts the readings, and may be newer
}

// reading is one uptime with the time of its arrival.
type reading struct {
	uptime  int64 // in milliseconds
	arrival time.Duration
}

// bound returns what the station's clock reads at least at a time not before the
// reading's arrival, in milliseconds, rounded down.
func (r reading) bound(at time.Duration, drift int64) int64 {
	elapsed := int64(at - r.arrival)
	return r.uptime + (elapsed-allowance(elapsed, drift))/1e6
}

// most returns the same as if the report had not travelled and the clock were as fast as it
// may be.
func (r reading) most(at time.Duration, drift int64) int64 {
	elapsed := int64(at - r.arrival)
	return r.uptime + (elapsed+allowance(elapsed, drift))/1e6
}

// leads reports whether a report is further ahead of a line of the same clock than its delays
// explain.
func (r reading) leads(line reading, drift int64) bool {
	return r.uptime-line.most(r.arrival, drift) > slowestLink.Milliseconds()
}

// allowance returns how far both clocks may move apart in so many nanoseconds, rounded up.
func allowance(elapsed, drift int64) int64 {
	return elapsed/1e6*(drift+ownDrift) + (elapsed%1e6*(drift+ownDrift)+1e6-1)/1e6 // in two parts, so that it never overflows
}

// add takes over what a report states of the clock, and reports whether the report is old:
// its uptime is below the highest of its connection, or it was sent again (DUP) and states
// no higher one, although a report has come that was not; or it was heard on the connection
// before, or made before the station restarted. An old report states nothing.
func (u *uptimes) add(stated Uptime, again bool, now time.Duration) (old bool) {
	next := reading{uptime: stated.Milliseconds, arrival: now}
	begins := stated.Stated && !again && u.beginsRun(next)
	if begins {
		u.restart()
	}
	below := stated.Stated && next.uptime < u.highest.uptime
	switch {
	case stated.Stated && !begins && (u.wasHeard(next, again) || u.isOfRunBefore(next, again)):
		return true
	case below && (again || !u.judge.returns(u, next)):
		return true
	case below:
		u.readings = nil
	case again && u.original && !(stated.Stated && next.uptime > u.highest.uptime):
		return true
	}
	if stated.DriftStated || !u.original && !again { // that of the connection before counts no longer
		u.drift = stated.Drift
	}
	u.original = u.original || !again
	if stated.Stated {
		if !below && !again {
			u.judge.compare(u, next)
		}
		u.highest, u.doubt = next, false
		u.keep(next)
	}
	return false
}

// keep adds a reading, where it is or will be the greatest bound.
func (u *uptimes) keep(next reading) {
	now, n := next.arrival, len(u.readings)
	for n > 0 && next.bound(now, u.drift) > u.readings[n-1].bound(now, u.drift) {
		n--
	}
	u.readings = u.readings[:n]
	if n == 0 || now-u.readings[n-1].arrival >= spacing {
		u.readings = append(u.readings, next)
	}
	u.forget(now)
}

// best returns the reading with the greatest bound; false where there is none.
func (u *uptimes) best(now time.Duration) (best reading, ok bool) {
	for _, r := range u.readings {
		if !ok || r.bound(now, u.drift) > best.bound(now, u.drift) {
			best, ok = r, true
		}
	}
	return best, ok
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
// of its uptime, rounded down; false where the station has reported no uptime, its clock
// is wrong, or its reports contradict each other.
func (u *uptimes) notAfter(deadline, now time.Duration) (uptime int64, ok bool) {
	u.forget(now)
	best, ok := u.best(deadline)
	return best.bound(deadline, u.drift), ok && !u.doubt && u.judge.fault == ""
}
