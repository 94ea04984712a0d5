package station

import (
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/site"
)

// doorRate bounds the records of one door: a busy one has more than a thousand a day, and
// one that flaps one a minute.
func doorRate() throttle.Rate { return throttle.Rate{Burst: 60, Every: time.Minute} }

// notOpenedAfter is how long after an unlock a door is awaited.
const notOpenedAfter = 30 * time.Second

// bounce is how soon after it has closed a door may be open again by itself.
const bounce = 2 * time.Second

const (
	detailNotOpened = "unlocked, not opened"
	detailOffline   = "seen when the station came back"
)

// passage is what is known of the door behind a lock, and of who may open it. Its moments
// are readings of [time.Now].
type passage struct {
	door         site.DoorStatus // empty until reported
	doorSince    time.Time
	doorRecorded site.DoorStatus // open or closed in its last record; empty: none yet
	doorSpan     allowance
	doorFresh    bool // reported on the present connection
	statusFresh  bool // the same of the lock, in a report: not every station reports what follows a result

	released time.Time      // the lock was then told to unlock, or known to be unlocked
	opened   time.Time      // when the door was last opened
	shut     time.Time      // when it was last closed
	forced   bool           // whether it was last opened by force
	awaited  site.CommandID // the latest unlock, while its door has not been opened
	explains site.CommandID // the latest command that was sent
}

// applyDoor takes over the status of the door behind a lock; false when there is no such
// lock.
func (s *Service) applyDoor(l *live, e *effect, id site.LockID, door site.DoorStatus, now time.Time) bool {
	if id < 1 || int(id) > len(l.locks) {
		return false
	}
	k := &l.locks[id-1]
	before, fresh := k.door, k.doorFresh
	k.doorFresh = true
	if before == door {
		return true
	}
	k.door, k.doorSince, e.event = door, now, true
	k.alarms.cause(site.KindDoorHeld).Set(e.moment, door == site.DoorOpen)
	forced := k.alarms.cause(site.KindDoorForced)
	if door == site.DoorOpen {
		k.opened, k.awaited = e.moment, ""
		k.forced = fresh && before == site.DoorClosed && !k.explained(e.moment, s.limits.Load().DoorForced)
		if k.forced {
			forced.Raise(e.moment, now)
			e.alarm = true
		}
	} else {
		forced.Set(e.moment, false)
		if before == site.DoorOpen {
			k.shut = e.moment
		}
	}
	detail := ""
	if !fresh && before != "" {
		detail = detailOffline
	}
	l.recordDoor(e, id, detail)
	k.alarms.record(e, site.Facts{Station: l.id, Lock: id.String()})
	return true
}

// explained reports whether the door may be opened now: its lock is unlocked, or was until
// a moment ago; or the door has just closed and bounces. Of a lock that reports no
// status this is unknown.
func (k *lock) explained(moment time.Time, grace time.Duration) bool {
	bounces := !k.forced && !k.shut.IsZero() && moment.Sub(k.shut) < bounce
	return grace == 0 || bounces || k.status == site.Unlocked || k.status == site.Unknown ||
		!k.released.IsZero() && moment.Sub(k.released) <= grace
}

// recordDoor notes a record of the present status of a door, as far as allowed. A door that
// is closed when it is first heard of, and one whose status is unknown, need none.
func (l *live) recordDoor(e *effect, id site.LockID, detail string) {
	k := &l.locks[id-1]
	facts := site.Facts{Station: l.id, Lock: id.String(), Detail: detail}
	kind := site.KindDoorClosed
	switch k.door {
	case site.DoorOpen:
		kind = site.KindDoorOpened
		if k.released.After(e.moment.Add(-notOpenedAfter)) {
			facts.Command = k.explains
		}
	case site.DoorClosed:
		if k.doorRecorded == "" && k.doorSpan.skipped == 0 {
			k.doorRecorded = k.door
			return
		}
	default:
		return
	}
	skipped, ok := k.doorSpan.take(e.moment, doorRate())
	if !ok {
		return
	}
	k.doorRecorded = k.door
	facts.Count = skipped
	e.note(kind, facts)
}

// updateDoors brings the journal up to date where records of doors were left out, and
// records unlocks whose doors were not opened.
func (l *live) updateDoors(e *effect) {
	for i := range l.locks {
		k, id := &l.locks[i], site.LockID(i+1)
		behind := k.doorSpan.skipped > 0 || k.door == site.DoorOpen && k.doorRecorded != site.DoorOpen ||
			k.door == site.DoorClosed && k.doorRecorded == site.DoorOpen
		if behind && k.doorSpan.open(e.moment, doorRate()) {
			k.doorSpan.forgive()
			l.recordDoor(e, id, detailCaughtUp)
		}
		if !k.doorFresh || k.door != site.DoorClosed {
			k.awaited = ""
		}
		if k.awaited != "" && k.status != site.Unlocked && e.moment.Sub(k.released) >= notOpenedAfter {
			if skipped, ok := k.doorSpan.take(e.moment, doorRate()); ok {
				e.note(site.KindNotOpened, site.Facts{
					Station: l.id, Lock: id.String(), Command: k.awaited, Detail: detailNotOpened, Count: skipped,
				})
			}
			k.awaited = ""
		}
	}
}

// Releasing notes that a command is about to be sent which unlocks a lock: to open
// its door is right from now on. It is quick and waits for no storage.
func (s *Service) Releasing(id site.StationID, number site.LockID, command site.CommandID) {
	s.withLock(id, number, func(k *lock) { k.released, k.explains = time.Now(), command })
}

// Unlocked notes how a command ended that was sent. Quick, as Releasing is.
func (s *Service) Unlocked(id site.StationID, number site.LockID, command site.CommandID, outcome site.Outcome) {
	switch outcome {
	case site.Refused, site.Failed, site.Expired:
		if l, ok := s.find(id); ok {
			s.refused(l, detailRefused)
		}
	case site.Acknowledged, site.Done:
		s.withLock(id, number, func(k *lock) {
			if k.door == site.DoorClosed && k.opened.Before(k.released) {
				k.awaited = command
			}
		})
	}
}

// withLock calls f for a lock with mu held, if there is such a lock.
func (s *Service) withLock(id site.StationID, number site.LockID, f func(*lock)) {
	l, ok := s.find(id)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= 1 && int(number) <= len(l.locks) {
		f(&l.locks[number-1])
	}
}
