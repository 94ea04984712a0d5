package stationlink

import "time"

// SetClock sets the clock that arrivals and deadlines are read by.
func (l *Link) SetClock(clock func() time.Duration) { l.clock = clock }

// Uptimes is the estimate of one connection, for tests without a link.
type Uptimes = uptimes

// NewUptimes returns the estimate of a connection that began then.
func NewUptimes(began time.Duration) *Uptimes { return &uptimes{judge: judge{began: began}} }

// Add takes over an uptime.
func (u *uptimes) Add(ms, drift int64, again bool, now time.Duration) (old bool) {
	return u.add(Uptime{Stated: true, Milliseconds: ms, DriftStated: true, Drift: drift}, again, now)
}

// NotAfter returns the deadline in the station's clock.
func (u *uptimes) NotAfter(deadline, now time.Duration) (int64, bool) {
	return u.notAfter(deadline, now)
}

// Fault returns what is wrong with the station's clock.
func (u *uptimes) Fault() ClockFault { return u.judge.fault }

// Follow sets what was heard on the connection before, which ended then; an uptime below 0 is not
// known.
func (u *uptimes) Follow(uptime, drift int64, arrival, ended time.Duration) {
	u.drift = drift
	u.before = &past{line: reading{uptime, arrival}, highest: uptime, known: uptime >= 0, ended: ended}
}

// Next returns the estimate of the connection that began then, when this one had just ended.
func (u *uptimes) Next(now time.Duration) *Uptimes {
	next := NewUptimes(now)
	next.before, next.drift = u.end(now), u.drift
	return next
}
