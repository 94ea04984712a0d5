package stationlink

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// ClockFault describes how the uptimes of one connection contradict the gateway's own clock,
// beyond the drift, so that no delay explains it; "" where they do not. It completes the
// sentence "The uptime of station 7 …".
type ClockFault string

// The faults of a station's clock.
const (
	clockSeconds ClockFault = "looks like seconds instead of milliseconds"
	clockWraps   ClockFault = "looks like a 32-bit counter of milliseconds that has wrapped"
	clockBack    ClockFault = "has gone back and stays there"
	clockSlow    ClockFault = "advances more slowly than time, like a counter that stops in sleep or counts something longer than milliseconds"
	clockFast    ClockFault = "advances faster than time, like a counter of something shorter than milliseconds"
)

// The bounds of what a delay can explain.
const (
	// longestStall is the longest delay of a report that is sent on a live connection: a
	// connection that is silent for one and a half keepalives, 3 minutes at most, is ended.
	// What a library has stored of an earlier connection may be older; it comes at the
	// beginning of the connection, or marked as sent again.
	longestStall = 4 * time.Minute
	// slowestLink is the longest delay that every packet of a link may have: on a slower one
	// no command is answered in time.
	slowestLink = 5 * time.Second
	// longestLag is how long a clock may lag behind by more than that before commands carry no
	// notAfter: a delay that lasts is hardly that of each report.
	longestLag = 30 * time.Second
	// leastRatioTime is the shortest time in which seconds can be told from milliseconds: two
	// reports that were made 3 ms apart hardly ever arrive 3 s apart.
	leastRatioTime = 2500 * time.Millisecond
)

// judge compares the uptimes of one connection with the gateway's own clock. A fault that no
// delay explains is final for the connection, because a clock that was wrong once may be
// again. The zero judge has seen nothing.
type judge struct {
	fault ClockFault
	final bool
	began time.Duration // when the connection began

	below  run // of the latest reports, those below the highest uptime
	behind run // of the latest reports that are not, those too far behind the estimate

	// first is the first report that was made on this connection for sure, up to the longest
	// stall.
	first reading
	sure  bool // there is one
}

// run is a number of reports in a row, of which it keeps the first. The zero run is empty.
type run struct {
	first reading
	any   bool
}

// returns reports whether a report whose uptime is below the highest shows that the clock
// has gone back. A single one may have been overtaken by a newer report, but whatever was
// overtaken arrives soon after that.
func (j *judge) returns(u *uptimes, next reading) bool {
	switch {
	case u.wraps(next):
		j.fault, j.final = clockWraps, true
	case j.below.keepsPace(next, slowestLink, u.drift):
		j.fault, j.final = clockBack, true
	default:
		return false
	}
	j.below, j.behind, j.sure = run{}, run{}, false
	return true
}

// wraps reports whether a report is what a counter states that was about to wrap.
func (u *uptimes) wraps(next reading) bool {
	best, known := u.best(next.arrival)
	return known && wraps(best, next, u.drift)
}

// wraps reports whether a report is what a counter states that has wrapped since another one.
func wraps(from, next reading, drift int64) bool {
	unwrapped, stall := next.uptime+1<<32, longestStall.Milliseconds()
	return unwrapped >= from.bound(next.arrival, drift)-stall && unwrapped <= from.most(next.arrival, drift)+stall
}

// mayBeStored reports whether a report may have been made before the connection.
func (j *judge) mayBeStored(next reading) bool { return next.arrival-j.began <= longestStall }

// compare judges a report whose uptime is not below the highest.
func (j *judge) compare(u *uptimes, next reading) {
	now := next.arrival
	best, known := u.best(now)
	late, early := best.bound(now, u.drift)-next.uptime, next.uptime-j.first.most(now, u.drift)
	seconds := known && looksLikeSeconds(best, next)
	trails := known && late >= slowestLink.Milliseconds()
	switch {
	case j.final:
	case seconds:
		j.fault = clockSeconds
	case known && late > longestStall.Milliseconds():
		j.fault, j.final = clockSlow, true
	case j.sure && early > longestStall.Milliseconds():
		j.fault, j.final = clockFast, true
	case trails && j.behind.keepsPace(next, longestLag, u.drift):
		j.fault, j.final = clockBack, now-j.behind.first.arrival >= longestStall
	default:
		j.fault = ""
	}
	j.below = run{}
	if !trails {
		j.behind = run{}
	}
	if !j.sure && now-j.began > longestStall {
		j.first, j.sure = next, true
	}
}

// keepsPace adds a report, and reports whether the run has kept pace with the gateway's clock
// for so long. A report that does not keep pace begins another run.
func (r *run) keepsPace(next reading, long time.Duration, drift int64) bool {
	passed := next.arrival - r.first.arrival
	off := next.uptime - r.first.uptime - passed.Milliseconds()
	tolerance := 100*time.Millisecond + min(passed/10, time.Second) + time.Duration(allowance(int64(passed), drift))
	if !r.any || max(off, -off) > tolerance.Milliseconds() {
		*r = run{next, true}
		return false
	}
	return passed >= long
}

// looksLikeSeconds reports whether a clock has advanced by about as many milliseconds as
// seconds have passed.
func looksLikeSeconds(from, to reading) bool {
	passed := (to.arrival - from.arrival).Milliseconds()
	off := 1000*(to.uptime-from.uptime) - passed
	return passed >= leastRatioTime.Milliseconds() && max(off, -off) <= min(passed/10, 1200)
}

// named is how many stations the condition of the clocks names.
const named = 5

// reportClocks raises or clears the condition of the clocks of the connected stations.
func (l *Link) reportClocks() {
	l.reporting.Lock()
	defer l.reporting.Unlock()
	faults := l.clockFaults()
	if len(faults) == 0 {
		l.health.Clear(health.StationClock)
		return
	}
	wrong := make([]string, 0, named)
	for _, id := range slices.Sorted(maps.Keys(faults))[:min(named, len(faults))] {
		wrong = append(wrong, fmt.Sprintf("the uptime of station %d %s", id, faults[id]))
	}
	summary := "T" + strings.Join(wrong, "; ")[1:]
	if more := len(faults) - named; more > 0 {
		summary += fmt.Sprintf("; and %d more", more)
	}
	l.health.Report(health.Warning, health.StationClock, summary,
		"Commands to such a station carry no deadline in its own clock (notAfter), so that one which waits in the network may open a door late. Let its firmware report the milliseconds since its start, sleep included, in a counter that never wraps")
}

// clockFaults returns what is wrong with the clocks of the connected stations.
func (l *Link) clockFaults() map[site.StationID]ClockFault {
	l.mu.RLock()
	defer l.mu.RUnlock()
	faults := make(map[site.StationID]ClockFault)
	for id, w := range l.live {
		if fault := w.clockFault(); fault != "" {
			faults[id] = fault
		}
	}
	return faults
}
