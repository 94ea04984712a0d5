package station

import (
	"time"

	"gatehouse/internal/door/alarm"
	"gatehouse/internal/site"
)

// What a record says of refusals.
const (
	detailRefused = "unlocks that the station refused or did not answer"
	detailLogins  = "logins with a wrong password"
)

// SetAlarms changes from when on alarms are raised; it takes effect within seconds.
func (s *Service) SetAlarms(l alarm.Limits) { s.limits.Store(&l) }

// statesWithin is how long after it has connected a station may take to state what holds.
const statesWithin = 5 * time.Minute

// updateAlarms raises and clears alarms as time passes, and records those that are owed.
// What was reported on an earlier connection is not sure, and no longer known if the station
// is back and does not state it again; neither is a status of a lock that only results
// state, because such a station never says that it has locked again.
func (s *Service) updateAlarms(l *live, e *effect) {
	limits := *s.limits.Load()
	hold := func(kind site.Kind, lock int, sure bool) {
		l.alarms.Hold(limits, kind, site.LockID(lock), sure, e.moment, e.now)
	}
	if !l.online() && !l.heard.IsZero() {
		hold(site.KindStationSilent, 0, true)
	}
	back := l.online() && e.moment.Sub(l.connected) >= statesWithin
	for i := range l.locks {
		k := &l.locks[i]
		if back && k.door != "" && k.doorOn != l.connection {
			k.door, k.doorSince, k.doorOn, e.event = site.DoorUnknown, e.now, l.connection, true
		}
		if k.door == site.DoorOpen {
			hold(site.KindDoorHeld, i+1, l.present(k.doorOn))
			if k.forced {
				hold(site.KindDoorForced, i+1, false) // prolongs it
			}
		}
		if k.status == site.Unlocked && (!back || l.present(k.statusOn)) {
			hold(site.KindLeftUnlocked, i+1, l.present(k.statusOn))
		}
	}
	if l.alarms.Settle(limits, e.moment) {
		l.dirty = true
	}
	l.recordAlarms(e)
}

func (l *live) recordAlarms(e *effect) {
	for _, r := range l.alarms.Due(e.moment) {
		r.Station, l.dirty = l.id, true
		e.records = append(e.records, r)
	}
}

// refused counts an unlock or a login that failed.
func (s *Service) refused(l *live, why string) {
	moment, now := time.Now(), s.cfg.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarms.Refused(*s.limits.Load(), why, moment, now)
}

// reportAlarms brings the health conditions up to date.
func (s *Service) reportAlarms() {
	standing := make(map[site.StationID][]alarm.Standing)
	for _, l := range s.all() {
		l.mu.Lock()
		standing[l.id] = l.alarms.Standing()
		l.mu.Unlock()
	}
	alarm.Report(s.cfg.Health, s.Stations(), standing)
}

// restoreAlarms makes the alarms stand as they did before a restart. Time counts anew for
// what is not one yet.
func (l *live) restoreAlarms(saved []alarm.Standing) {
	l.alarms.Restore(saved, time.Now())
	l.alarms.Resize(len(l.locks))
	for _, a := range l.alarms.Standing() {
		if a.Kind == site.KindDoorForced && a.Lock != 0 {
			l.locks[a.Lock-1].forced = true
		}
	}
}
