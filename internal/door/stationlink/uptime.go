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

	before *reading // the highest of the connection before; nil: there was no connection before
	anew   bool     // the station seems to have restarted since
	sure   bool     // it has
}

// unknownUptime is the uptime of a [reading] of which only the time is known.
const unknownUptime = -1

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

// allowance returns how far both clocks may move apart in so many nanoseconds, rounded up.
func allowance(elapsed, drift int64) int64 {
	return elapsed/1e6*(drift+ownDrift) + (elapsed%1e6*(drift+ownDrift)+1e6-1)/1e6 // in two parts, so that it never overflows
}

// add takes over what a report states of the clock, and reports whether the report is old:
// its uptime is below the highest of its connection, or it was sent again (DUP) and states
// no higher one, although a report has come that was not, or it was made before the station
// restarted. An old report states nothing.
func (u *uptimes) add(stated Uptime, again bool, now time.Duration) (old bool) {
	next := reading{uptime: stated.Milliseconds, arrival: now}
	if stated.Stated && !again && u.showsRestart(next) {
		u.restart(next)
	}
	below := stated.Stated && next.uptime < u.highest.uptime
	switch {
	case stated.Stated && u.isOfRunBefore(next, again):
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
		u.highest = next
		u.keep(next)
	}
	return false
}

// showsRestart reports whether a report may be the first that was made after the station
// restarted, which it can only do between two connections. Its uptime is then less than the
// time since the connection before. Libraries that store in a file what they have not sent
// also send reports of the run before: those are higher.
func (u *uptimes) showsRestart(next reading) bool {
	if u.before == nil || u.judge.fault != "" || !u.judge.mayBeStored(next) || u.wraps(next) {
		return false
	}
	since := next.arrival - u.before.arrival + longestStall
	switch first := len(u.readings) == 0; {
	case next.uptime > since.Milliseconds(), u.sure, u.goesOn(next):
		return false
	case next.uptime < u.before.uptime, first:
		return true
	default:
		return next.uptime < u.highest.uptime && !u.goesOn(u.highest)
	}
}

// goesOn reports whether a report was made just now, if the station has not restarted.
func (u *uptimes) goesOn(r reading) bool {
	return u.before.uptime != unknownUptime && u.before.bound(r.arrival, u.drift)-r.uptime <= slowestLink.Milliseconds()
}

// restart forgets the run before. Should the station not have restarted, its next report
// keeps pace with those that are forgotten.
func (u *uptimes) restart(next reading) {
	before := run{}
	before.first, before.any = u.best(next.arrival)
	u.judge = judge{began: u.judge.began, above: before}
	u.readings, u.highest = nil, reading{}
	u.anew, u.sure = true, next.uptime < u.before.uptime
}

// isOfRunBefore reports whether a report was made before the station restarted.
func (u *uptimes) isOfRunBefore(next reading, again bool) bool {
	best, known := u.best(next.arrival)
	if !u.anew || !known || !u.judge.mayBeStored(next) || next.uptime-best.most(next.arrival, u.drift) <= slowestLink.Milliseconds() {
		return false
	}
	u.anew = (u.sure || !u.goesOn(next)) && (again || !u.judge.above.keepsPace(next, slowestLink, u.drift))
	return u.anew
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
// of its uptime, rounded down; false where the station has reported no uptime, or its clock
// is wrong.
func (u *uptimes) notAfter(deadline, now time.Duration) (uptime int64, ok bool) {
	u.forget(now)
	best, ok := u.best(deadline)
	return best.bound(deadline, u.drift), ok && u.judge.fault == ""
}
