package station

import (
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/door/alarm"
	"gatehouse/internal/site"
)

// SavedAlarm is an alarm that stands, as it is kept over a restart.
type SavedAlarm struct {
	Kind  site.Kind      `json:"kind"`
	Lock  site.LockID    `json:"lock,omitempty"` // 0: of the station
	Since site.Timestamp `json:"since"`
}

// alarmRate bounds the records of the alarms of one lock, and those of one station.
func alarmRate() throttle.Rate { return throttle.Rate{Burst: 1, Every: time.Minute} }

// Sentences of alarm records.
const (
	detailRefused = "unlocks that the station refused or did not answer"
	detailLogins  = "logins with a wrong password"
)

// causes are the possible alarms of a lock or a station, with the bound of their records.
type causes struct {
	of   []alarm.Cause
	span throttle.Bucket
}

func newCauses(kinds ...site.Kind) causes {
	c := causes{of: make([]alarm.Cause, len(kinds))}
	for i, kind := range kinds {
		c.of[i].Kind = kind
	}
	return c
}

// cause returns the cause of a kind; nil where there is none.
func (c *causes) cause(kind site.Kind) *alarm.Cause {
	for i := range c.of {
		if c.of[i].Kind == kind {
			return &c.of[i]
		}
	}
	return nil
}

// record notes the records that are owed, as far as allowed; facts name whose they are.
func (c *causes) record(e *effect, facts site.Facts) {
	for i := range c.of {
		cause := &c.of[i]
		if cause.Owed == 0 || c.span.Wait(e.moment, alarmRate()) > 0 {
			continue
		}
		c.span.Take(e.moment, alarmRate())
		facts.Detail, facts.Count = cause.Detail, 0
		if cause.Owed > 1 {
			facts.Count = cause.Owed
		}
		cause.Owed = 0
		e.note(cause.Kind, facts)
	}
}

// SetAlarms changes from when on alarms are raised; it takes effect within seconds.
func (s *Service) SetAlarms(l alarm.Limits) { s.limits.Store(&l) }

// updateAlarms raises and clears alarms as time passes, and records those that are owed.
func (s *Service) updateAlarms(l *live, e *effect, now time.Time) {
	limits := *s.limits.Load()
	update := func(c *causes, judged func(site.Kind) bool) {
		for i := range c.of {
			if c.of[i].Update(e.moment, now, limits, judged(c.of[i].Kind)) {
				e.alarm = true
			}
		}
	}
	update(&l.alarms, func(site.Kind) bool { return true })
	l.alarms.record(e, site.Facts{Station: l.id})
	for i := range l.locks {
		k := &l.locks[i]
		update(&k.alarms, func(kind site.Kind) bool {
			return l.online() && (k.doorFresh && kind == site.KindDoorHeld || k.statusFresh && kind == site.KindLeftUnlocked)
		})
		k.alarms.record(e, site.Facts{Station: l.id, Lock: site.LockID(i + 1).String()})
	}
}

// refused counts a refusal, and raises the alarm when there are many.
func (s *Service) refused(l *live, detail string) {
	limits := s.limits.Load()
	if limits.RefusedOften == 0 {
		return
	}
	moment := time.Now()
	rate := throttle.Rate{Burst: limits.RefusedOften, Every: alarm.RefusedWithin / time.Duration(limits.RefusedOften)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusals.Wait(moment, rate) == 0 {
		l.refusals.Take(moment, rate)
	}
	c := l.alarms.cause(site.KindRefusedOften)
	switch often := l.refusals.Wait(moment, rate) > 0; {
	case !c.Raised.IsZero():
		c.Set(moment, true)
	case often:
		c.Raise(moment, s.cfg.Clock.Now())
		c.Detail, l.dirty = detail, true
		s.alarmed()
	}
	c.Set(moment, false)
}

// alarmed has Run report the alarms that stand.
func (s *Service) alarmed() {
	select {
	case s.alarmChanged <- struct{}{}:
	default: // it is about to
	}
}

// reportAlarms brings the health conditions up to date.
func (s *Service) reportAlarms() {
	var standing []alarm.Standing
	for _, l := range s.all() {
		st := l.enrolled.Load().station
		l.mu.Lock()
		for _, a := range l.standing() {
			standing = append(standing, alarm.Standing{Kind: a.Kind, Station: st, Lock: a.Lock, Since: a.Since})
		}
		l.mu.Unlock()
	}
	alarm.Report(s.cfg.Health, standing)
}

// standing lists the alarms that stand; mu is held.
func (l *live) standing() (all []SavedAlarm) {
	list := func(c *causes, lock site.LockID) {
		for _, cause := range c.of {
			if !cause.Raised.IsZero() {
				all = append(all, SavedAlarm{Kind: cause.Kind, Lock: lock, Since: cause.Raised})
			}
		}
	}
	if l.removed {
		return nil
	}
	list(&l.alarms, 0)
	for i := range l.locks {
		list(&l.locks[i].alarms, site.LockID(i+1))
	}
	return all
}

// restoreAlarms makes the alarms stand as they did before a restart. Time counts anew for
// what is not one yet.
func (l *live) restoreAlarms(saved []SavedAlarm, moment time.Time) {
	l.alarms.cause(site.KindStationSilent).Set(moment, !l.heard.IsZero())
	for i := range l.locks {
		k := &l.locks[i]
		k.alarms.cause(site.KindDoorHeld).Set(moment, k.door == site.DoorOpen)
		k.alarms.cause(site.KindLeftUnlocked).Set(moment, k.status == site.Unlocked)
	}
	for _, a := range saved {
		of := &l.alarms
		if a.Lock != 0 {
			if !l.enrolled.Load().station.HasLock(a.Lock) {
				continue
			}
			of = &l.locks[a.Lock-1].alarms
		}
		c := of.cause(a.Kind)
		if c == nil || a.Since.IsZero() {
			continue
		}
		c.Restore(moment, a.Since)
		if a.Kind == site.KindDoorForced {
			c.Set(moment, l.locks[a.Lock-1].door == site.DoorOpen)
		}
	}
}
