// Package alarm holds the rules of alarms: what of a door, a lock or a station calls for
// attention, from when on, and until when. A [Cause] follows one of them; [Report] shows
// those that stand as health conditions.
//
// It knows no station and writes no record: package station feeds it. Its moments are
// readings of [time.Now], so that no step of the gateway's clock raises or clears an
// alarm.
package alarm

import (
	"time"

	"gatehouse/internal/site"
)

// Limits are from when on each alarm is raised; zero switches one off.
type Limits struct {
	DoorForced    time.Duration // how long after an unlock or an exit a door may still be opened
	DoorHeld      time.Duration // how long a door may be open
	LeftUnlocked  time.Duration // how long a lock may be unlocked
	StationSilent time.Duration // how long a station may have no connection
	RefusedOften  int           // how many unlocks and logins of a station may fail within RefusedWithin
}

// RefusedWithin is the time in which refusals are counted.
const RefusedWithin = 10 * time.Minute

// OfLocks lists the alarms of each lock.
func OfLocks() [3]site.Kind {
	return [3]site.Kind{site.KindDoorForced, site.KindDoorHeld, site.KindLeftUnlocked}
}

// OfStations lists the alarms of each station.
func OfStations() [2]site.Kind {
	return [2]site.Kind{site.KindStationSilent, site.KindRefusedOften}
}

// limit returns how long a cause of that kind has to hold; off where it raises no alarm.
func (l Limits) limit(kind site.Kind) (limit time.Duration, off bool) {
	switch kind {
	case site.KindDoorForced:
		return 0, l.DoorForced == 0
	case site.KindRefusedOften:
		return 0, l.RefusedOften == 0
	case site.KindDoorHeld:
		limit = l.DoorHeld
	case site.KindLeftUnlocked:
		limit = l.LeftUnlocked
	case site.KindStationSilent:
		limit = l.StationSilent
	}
	return limit, limit == 0
}

// settle returns how long a cause of that kind must have ended before its alarm clears: a
// shorter end is none. What is over at once stays to be seen.
func settle(kind site.Kind) time.Duration {
	switch kind {
	case site.KindDoorForced:
		return 10 * time.Minute
	case site.KindRefusedOften:
		return 30 * time.Minute
	case site.KindStationSilent:
		return 30 * time.Second
	default:
		return 2 * time.Second
	}
}

// Cause is one possible alarm of one lock or station. Not safe for concurrent use.
type Cause struct {
	Kind   site.Kind
	Raised site.Timestamp // since when the alarm stands, by the gateway's clock; zero: it does not
	Owed   int            // how often it was raised without a record yet
	Detail string         // what the record says of it

	since time.Time // since when the cause holds, short ends ignored; zero: it does not
	ended time.Time // when it ended; zero: it has not
}

// Set notes whether the cause holds from now on.
func (c *Cause) Set(moment time.Time, holds bool) {
	if over := !c.ended.IsZero() && moment.Sub(c.ended) >= settle(c.Kind); over && c.Raised.IsZero() {
		c.since, c.ended = time.Time{}, time.Time{}
	}
	switch {
	case !holds && !c.since.IsZero() && c.ended.IsZero():
		c.ended = moment
	case holds && c.since.IsZero():
		c.since = moment
	case holds:
		c.ended = time.Time{}
	}
}

// Raise raises the alarm, now by the gateway's clock, and owes a record of it.
func (c *Cause) Raise(moment time.Time, now time.Time) {
	if c.Raised.IsZero() {
		c.Raised = site.At(now)
	}
	if c.since.IsZero() {
		c.since = moment
	}
	c.ended = time.Time{}
	c.Owed++
}

// Restore makes the alarm stand as it did before a restart, without a record. It clears
// unless the cause holds.
func (c *Cause) Restore(moment time.Time, raised site.Timestamp) {
	c.Raised = raised
	if c.since.IsZero() {
		c.since, c.ended = moment, moment
	}
}

// Update raises the alarm where the cause has held for long enough and can be judged now,
// and clears it where the cause has ended. It reports whether either happened.
func (c *Cause) Update(moment, now time.Time, l Limits, judged bool) (changed bool) {
	limit, off := l.limit(c.Kind)
	stands := !c.Raised.IsZero()
	over := !c.ended.IsZero() && moment.Sub(c.ended) >= settle(c.Kind)
	switch {
	case stands && (off || over):
		c.Raised = site.Timestamp{}
		if over {
			c.since, c.ended = time.Time{}, time.Time{}
		}
		return true
	case !stands && !off && judged && limit > 0 && !c.since.IsZero() && c.ended.IsZero() && moment.Sub(c.since) >= limit:
		c.Raise(moment, now)
		return true
	}
	return false
}
