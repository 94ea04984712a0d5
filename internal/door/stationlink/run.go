package stationlink

import "time"

// A station restarts between two connections, never during one, and begins to count its uptime
// again. Libraries keep what they could not send, in memory or in a file, and send it on the
// next connection, before what is new or behind it. So the first reports of a connection may be
// of the run that was heard before, made long ago or just now, or of a new run. One rule tells
// them apart: a run ends before the next begins.
//
//   - before: what was heard on the connection before. The run that it is of had not ended when
//     that connection did, up to the longest silence; so no later run is longer than the time since.
//   - heard, the first state: the readings are of the run before, or there is no connection before.
//     A report that is lower than that run can state now, and no higher than a later run can be,
//     begins a new run; unless the highest report was made after that run would have begun.
//   - anew: the readings are of a new run. A report that is higher than that run can be is of the
//     run before, and old; unless it was made after the new run would have begun: then there
//     was no restart, and the lower report had only been kept.
//
// A clock does not leap: a report that leads both what was heard on this connection and on the one
// before is of an earlier run, however many connections ago that was, and old.
//
// The lower of two is believed at once, so that notAfter is never behind the deadline, and the
// higher with the next report that shows it.

// past is what was heard on the connection before that stated an uptime.
type past struct {
	line    reading // its greatest bound; zero, with known false, where the gateway has restarted since
	highest int64   // the greatest uptime that was stated
	known   bool
	ended   time.Duration // when it ended, or an earlier time
	above   run           // of the latest reports, those that seem to be of an earlier run
}

// end returns what the next connection is to know, when this one ends.
func (u *uptimes) end(now time.Duration) *past {
	best, known := u.best(now)
	if !known || u.judge.fault != "" {
		return u.before
	}
	p := past{line: best, highest: u.highest.uptime, known: true, ended: now}
	if u.before != nil {
		p.above = u.before.above
	}
	return &p
}

// mayBegin reports whether a run that states that uptime may have begun after the connection
// before.
func (u *uptimes) mayBegin(next reading) bool {
	return next.uptime <= (next.arrival - u.before.ended + longestStall).Milliseconds()
}

// goesOn reports whether a report was made just now, if the station has not restarted.
func (u *uptimes) goesOn(next reading) bool {
	return u.before.known && u.before.line.bound(next.arrival, u.drift)-next.uptime <= slowestLink.Milliseconds()
}

// overlaps reports whether a report of the run before was made after the run of another one
// began, which was before this connection, so that both are of one run. The delays of the
// connection before were those of a link.
func (u *uptimes) overlaps(before, next reading) bool {
	if !u.before.known {
		return false
	}
	late := u.before.line.most(before.arrival, u.drift) - before.uptime + slowestLink.Milliseconds()
	age := next.uptime - allowance(next.uptime, u.drift) + (before.arrival - next.arrival).Milliseconds()
	return late < max(age, (before.arrival-u.judge.began).Milliseconds())
}

// beginsRun reports whether a report may be the first that is known of a new run.
func (u *uptimes) beginsRun(next reading) bool {
	switch {
	case u.before == nil, !u.mayBegin(next):
		return false
	case !u.original && (!u.goesOn(next) || next.uptime < u.before.highest):
		return true
	}
	best, _ := u.best(next.arrival)
	return best.most(next.arrival, u.drift)-next.uptime > slowestLink.Milliseconds() && next.uptime < u.highest.uptime &&
		u.judge.fault == "" && u.judge.mayBeStored(next) && !u.wraps(next) && !u.overlaps(u.highest, next)
}

// restart forgets the run before. Should the station not have restarted, its next report
// keeps pace with those that are forgotten.
func (u *uptimes) restart() {
	u.before.above.first, u.before.above.any = u.best(u.highest.arrival)
	u.judge, u.readings, u.highest = judge{began: u.judge.began}, nil, reading{}
}

// wasHeard reports whether the first report of a connection is older than what was heard on the
// connection before, or the same, sent again. A clock that has gone back meanwhile goes on from
// there.
func (u *uptimes) wasHeard(next reading, again bool) bool {
	b := u.before
	if b == nil || !b.known || len(u.readings) > 0 || wraps(b.line, next, u.drift) {
		return false
	}
	return again && next.uptime == b.highest || next.uptime < b.highest && (again || !u.judge.below.keepsPace(next, slowestLink, u.drift))
}

// isOfRunBefore reports whether a report was made before the station restarted: it leads the
// clock, and either the run before can state it, and the clock is of a new one, or not even that
// run can. Libraries send what they have stored at the beginning of a connection, or marked.
func (u *uptimes) isOfRunBefore(next reading, again bool) bool {
	b := u.before
	best, known := u.best(next.arrival)
	if b == nil || known && !next.leads(best, u.drift) || !again && !u.judge.mayBeStored(next) {
		return false
	}
	ofNone := b.known && next.leads(b.line, u.drift)
	if !ofNone && (!known || !u.mayBegin(best) || u.overlaps(next, best)) {
		return false
	}
	old := again || !b.above.keepsPace(next, slowestLink, u.drift)
	u.doubt = old && !b.known
	return old
}
