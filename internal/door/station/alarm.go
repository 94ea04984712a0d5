package station

import (
	"cmp"
	"slices"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// alarmEvery is how often one lock, or one station itself, gets a record of an alarm.
	alarmEvery = time.Minute
	// refusedWithin is the time in which refusals are counted.
	refusedWithin = 10 * time.Minute
	// statesWithin is how long after it has connected a station may take to state what holds.
	statesWithin = 5 * time.Minute
)

// What a record says of refusals.
const (
	detailRefused = "unlocks that the station refused or did not answer"
	detailLogins  = "logins with a wrong password"
)

// Alarm is one that stands, as it is kept over a restart: something of a door, a lock or a
// station calls for attention.
type Alarm struct {
	Kind  site.Kind      `json:"kind"`
	Lock  site.LockID    `json:"lock,omitempty"` // 0: of the station
	Since site.Timestamp `json:"since"`
}

// alarm is one that stands, may soon, or did and owes a record. Its moments are readings of
// [time.Now], so that no step of the gateway's clock raises or clears it.
type alarm struct {
	Alarm              // Since is zero where it does not stand
	began    time.Time // when its cause was first seen, short ends ignored; zero: it is over
	seen     time.Time // when its cause was last seen
	owed     int       // how often it was raised since its last record
	recorded time.Time // when the last record was
	why      string    // what a record says, where that differs
}

// SetAlarms changes from when on alarms are raised; it takes effect within seconds.
func (s *Service) SetAlarms(l AlarmLimits) { s.limits.Store(&l) }

// see notes that the cause of an alarm holds.
func (l *live) see(e *effect, kind site.Kind, lock site.LockID) *alarm {
	i := slices.IndexFunc(l.alarms, func(a alarm) bool { return a.Kind == kind && a.Lock == lock })
	if i < 0 {
		i = len(l.alarms)
		l.alarms = append(l.alarms, alarm{Alarm: Alarm{Kind: kind, Lock: lock}})
	}
	a := &l.alarms[i]
	if a.began.IsZero() {
		a.began = e.moment
	}
	a.seen = e.moment
	return a
}

// raise raises an alarm; one that stands is raised once more.
func (a *alarm) raise(e *effect) {
	if a.Since.IsZero() {
		a.Since = site.At(e.now)
	}
	a.owed++
}

// refused counts an unlock or a login that failed, and raises the alarm when there are
// many; each prolongs one that stands.
func (s *Service) refused(l *live, why string) {
	most := s.limits.Load().RefusedOften
	if most == 0 {
		return
	}
	e, rate := &effect{now: s.cfg.Clock.Now(), moment: time.Now()}, limit.Rate{Burst: most, Every: refusedWithin / time.Duration(most)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusals.Wait(e.moment, rate) == 0 {
		l.refusals.Take(e.moment, rate)
	}
	a := l.see(e, site.KindRefusedOften, 0)
	if a.Since.IsZero() && l.refusals.Wait(e.moment, rate) > 0 {
		a.why = why
		a.raise(e)
	}
}

// updateAlarms raises and clears alarms as time passes, and records those that are owed.
// What was reported on an earlier connection is not sure, and no longer known if the station
// is back and does not state it again; neither is a status of a lock that only results
// state, because such a station never says that it has locked again.
func (s *Service) updateAlarms(l *live, e *effect) {
	rules := s.limits.Load().rules()
	hold := func(kind site.Kind, lock int, sure bool) {
		a, limit := l.see(e, kind, site.LockID(lock)), rules[kind].limit
		if sure && a.Since.IsZero() && limit > 0 && e.moment.Sub(a.began) >= limit {
			a.raise(e)
		}
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
	l.settleAlarms(e, rules)
	l.recordAlarms(e)
}

// settleAlarms clears the alarms whose causes have ended.
func (l *live) settleAlarms(e *effect, rules map[site.Kind]alarmRule) {
	for i := range l.alarms {
		a := &l.alarms[i]
		r := rules[a.Kind]
		if e.moment.Sub(a.seen) >= r.settle {
			a.began = time.Time{}
		}
		if !a.Since.IsZero() && (a.began.IsZero() || r.limit == 0) {
			a.Since, l.dirty = site.Timestamp{}, true
		}
	}
	l.alarms = slices.DeleteFunc(l.alarms, func(a alarm) bool {
		return a.began.IsZero() && a.owed == 0 && e.moment.Sub(a.recorded) >= alarmEvery
	})
}

// recordAlarms adds the records that are due. A lock that owes several gets first the one
// that has waited longest; as a run ends, all are due.
func (l *live) recordAlarms(e *effect) {
	slices.SortStableFunc(l.alarms, func(a, b alarm) int { return a.recorded.Compare(b.recorded) })
	for i := range l.alarms {
		a := &l.alarms[i]
		lately := func(b alarm) bool { return b.Lock == a.Lock && e.moment.Sub(b.recorded) < alarmEvery }
		if a.owed == 0 || !l.ending && slices.ContainsFunc(l.alarms, lately) {
			continue
		}
		facts := site.Facts{Station: l.id, Detail: cmp.Or(a.why, AlarmLimits{}.rules()[a.Kind].means), Count: limit.CountOf(a.owed)}
		if a.Lock != 0 {
			facts.Lock = a.Lock.String()
		}
		e.records = append(e.records, site.Record{Kind: a.Kind, Facts: facts})
		a.owed, a.recorded, l.dirty = 0, e.moment, true
	}
}

// standing lists the alarms that stand; mu is held.
func (l *live) standing() (all []Alarm) {
	for _, a := range l.alarms {
		if !a.Since.IsZero() {
			all = append(all, a.Alarm)
		}
	}
	return all
}

// restoreAlarms makes the alarms stand as they did before a restart, without a record. They
// clear unless their causes hold; time counts anew for what is not one yet.
func (l *live) restoreAlarms(saved []Alarm) {
	for _, a := range saved {
		if int(a.Lock) > len(l.locks) {
			continue
		}
		l.see(&effect{moment: time.Now()}, a.Kind, a.Lock).Since = a.Since
		if a.Kind == site.KindDoorForced && a.Lock != 0 {
			l.locks[a.Lock-1].forced = true
		}
	}
}
