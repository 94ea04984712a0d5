// Package alarm holds the rules of alarms: what of a door, a lock or a station calls for
// attention, from when on, and until when. A [Set] follows those of one station; [Report]
// shows those that stand as health conditions.
//
// It knows no door and writes no record: package station tells a Set every few seconds
// which causes hold. Its moments are readings of [time.Now], so that no step of the
// gateway's clock raises or clears an alarm.
package alarm

import (
	"cmp"
	"slices"
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/site"
)

const (
	// recordEvery is how often one lock, or one station itself, gets a record of an alarm.
	recordEvery = time.Minute
	// refusedWithin is the time in which refusals are counted.
	refusedWithin = 10 * time.Minute
)

// Limits are from when on each alarm is raised; zero switches one off.
type Limits struct {
	DoorForced    time.Duration // how long after an unlock or an exit a door may still be opened
	DoorHeld      time.Duration // how long a door may be open
	LeftUnlocked  time.Duration // how long a lock may be unlocked
	StationSilent time.Duration // how long a station may have no connection
	RefusedOften  int           // how many unlocks and logins of a station may fail within ten minutes
}

// Standing is one alarm that stands, as it is kept over a restart.
type Standing struct {
	Kind  site.Kind      `json:"kind"`
	Lock  site.LockID    `json:"lock,omitempty"` // 0: of the station
	Since site.Timestamp `json:"since"`
}

// alarm is one that stands, may soon, or did and owes a record.
type alarm struct {
	Standing           // Since is zero where it does not stand
	began    time.Time // when its cause was first seen, short ends ignored; zero: it is over
	seen     time.Time // when its cause was last seen
	owed     int       // how often it was raised since its last record
	recorded time.Time // when the last record was
	why      string    // what a record says, where that differs
}

// Set has the alarms of one station. The zero Set has none. Not safe for concurrent use.
type Set struct {
	alarms   []alarm
	refusals throttle.Bucket // empty: there are often some
	all      bool            // every record is due
}

// see notes that the cause of an alarm holds.
func (s *Set) see(kind site.Kind, lock site.LockID, moment time.Time) *alarm {
	i := slices.IndexFunc(s.alarms, func(a alarm) bool { return a.Kind == kind && a.Lock == lock })
	if i < 0 {
		i = len(s.alarms)
		s.alarms = append(s.alarms, alarm{Standing: Standing{Kind: kind, Lock: lock}})
	}
	a := &s.alarms[i]
	if a.began.IsZero() {
		a.began = moment
	}
	a.seen = moment
	return a
}

// raise raises an alarm, now by the gateway's clock; one that stands is raised once more.
func (a *alarm) raise(now time.Time) {
	if a.Since.IsZero() {
		a.Since = site.At(now)
	}
	a.owed++
}

// Raise raises an alarm at once.
func (s *Set) Raise(kind site.Kind, lock site.LockID, moment, now time.Time) {
	s.see(kind, lock, moment).raise(now)
}

// Refused counts an unlock or a login that failed, and raises the alarm when there are
// many; each prolongs one that stands.
func (s *Set) Refused(l Limits, why string, moment, now time.Time) {
	if l.RefusedOften == 0 {
		return
	}
	rate := throttle.Rate{Burst: l.RefusedOften, Every: refusedWithin / time.Duration(l.RefusedOften)}
	if s.refusals.Wait(moment, rate) == 0 {
		s.refusals.Take(moment, rate)
	}
	a := s.see(site.KindRefusedOften, 0, moment)
	if a.Since.IsZero() && s.refusals.Wait(moment, rate) > 0 {
		a.why = why
		a.raise(now)
	}
}

// Hold notes that the cause of an alarm holds, and raises the alarm once it has held for
// long enough. One that is not sure, not being known of this moment, raises none.
func (s *Set) Hold(l Limits, kind site.Kind, lock site.LockID, sure bool, moment, now time.Time) {
	a, limit := s.see(kind, lock, moment), l.rules()[kind].limit
	if sure && a.Since.IsZero() && limit > 0 && moment.Sub(a.began) >= limit {
		a.raise(now)
	}
}

// Settle clears the alarms whose causes have ended, and reports whether there were any.
func (s *Set) Settle(l Limits, moment time.Time) (cleared bool) {
	rules := l.rules()
	for i := range s.alarms {
		a := &s.alarms[i]
		r := rules[a.Kind]
		if moment.Sub(a.seen) >= r.settle {
			a.began = time.Time{}
		}
		if !a.Since.IsZero() && (a.began.IsZero() || r.limit == 0) {
			a.Since, cleared = site.Timestamp{}, true
		}
	}
	s.alarms = slices.DeleteFunc(s.alarms, func(a alarm) bool {
		return a.began.IsZero() && a.owed == 0 && moment.Sub(a.recorded) >= recordEvery
	})
	return cleared
}

// Due returns the records that are due, without the station. A lock that owes several gets
// first the one that has waited longest.
func (s *Set) Due(moment time.Time) (due []site.Record) {
	slices.SortStableFunc(s.alarms, func(a, b alarm) int { return a.recorded.Compare(b.recorded) })
	for i := range s.alarms {
		a := &s.alarms[i]
		lately := func(b alarm) bool { return b.Lock == a.Lock && moment.Sub(b.recorded) < recordEvery }
		if a.owed == 0 || !s.all && slices.ContainsFunc(s.alarms, lately) {
			continue
		}
		r := site.Record{Kind: a.Kind, Facts: site.Facts{Detail: cmp.Or(a.why, Limits{}.rules()[a.Kind].means), Count: throttle.CountOf(a.owed)}}
		if a.Lock != 0 {
			r.Lock = a.Lock.String()
		}
		a.owed, a.recorded = 0, moment
		due = append(due, r)
	}
	return due
}

// AllowAll makes every record due that is owed, as the gateway ends.
func (s *Set) AllowAll() { s.all = true }

// Standing lists the alarms that stand.
func (s *Set) Standing() (all []Standing) {
	for _, a := range s.alarms {
		if !a.Since.IsZero() {
			all = append(all, a.Standing)
		}
	}
	return all
}

// Restore makes alarms stand as they did before a restart, without a record. They clear
// unless their causes hold.
func (s *Set) Restore(saved []Standing, moment time.Time) {
	for _, a := range saved {
		s.see(a.Kind, a.Lock, moment).Since = a.Since
	}
}

// Resize forgets the alarms of locks beyond the n-th.
func (s *Set) Resize(n int) {
	s.alarms = slices.DeleteFunc(s.alarms, func(a alarm) bool { return int(a.Lock) > n })
}
