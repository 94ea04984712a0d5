package station

import (
	"time"

	"gatehouse/internal/site"
)

const (
	// openedWithin is how long after a command a door is opened because of it.
	openedWithin = 30 * time.Second
	// bounce is how soon after it has closed a door may be open again by itself.
	bounce = 2 * time.Second
)

const (
	detailNotOpened = "the door was not opened"
	detailOffline   = "seen when the station came back"
)

// passage is what is known of the door behind a lock, and of who may open it. Its moments
// are readings of [time.Now].
type passage struct {
	door      site.DoorStatus // empty until reported
	doorSince time.Time
	passages  trail
	doorOn    site.ConnectionID // the connection on which it was last reported
	statusOn  site.ConnectionID // the same of the lock, in a report
	shut      time.Time         // when the door was last closed
	forced    bool              // whether it was last opened by force

	released time.Time      // the lock was then told to unlock, or known to be unlocked
	command  site.CommandID // the latest that was sent, until the door is opened
	sent     time.Time      // when that was
	awaited  bool           // it was carried out, and the door has not been opened
}

// present reports whether a connection is the station's present one.
func (l *live) present(c site.ConnectionID) bool { return l.online() && c == l.connection }

// applyDoor takes over the status of the door behind a lock that the station has. A door
// that is closed when it is first heard of needs no record.
func (s *Service) applyDoor(l *live, e *effect, id site.LockID, door site.DoorStatus) {
	k := &l.locks[id-1]
	before, fresh := k.door, l.present(k.doorOn)
	k.doorOn = l.connection
	if before == door {
		return
	}
	k.door, k.doorSince, e.event = door, e.now, true
	detail := ""
	if !fresh && before != "" {
		detail = detailOffline
	}
	if before != "" || door != site.DoorClosed {
		l.recordDoor(e, id, detail)
	}
	switch {
	case door == site.DoorOpen:
		k.awaited, k.command = false, ""
		if e.moment.Sub(k.shut) >= bounce {
			k.forced = fresh && before == site.DoorClosed && !k.explained(e.moment, s.limits.Load().DoorForced)
			if k.forced {
				l.see(e, site.KindDoorForced, id).raise(e)
				l.recordAlarms(e)
			}
		}
	case before == site.DoorOpen:
		k.shut = e.moment
	}
}

// explained reports whether the door may be opened now: its lock is unlocked, or was until
// a moment ago. Of a lock that reports no status this is unknown.
func (k *lock) explained(moment time.Time, grace time.Duration) bool {
	return grace == 0 || k.status == site.Unlocked || k.status == site.Unknown || moment.Sub(k.released) <= grace
}

// recordDoor notes a record of the present status of a door, as far as allowed; an unknown
// one needs none.
func (l *live) recordDoor(e *effect, id site.LockID, detail string) {
	k := &l.locks[id-1]
	facts := site.Facts{Station: l.id, Lock: id.String(), Detail: detail}
	kind := site.KindDoorClosed
	switch {
	case k.door == site.DoorUnknown:
		return
	case k.door == site.DoorOpen:
		kind = site.KindDoorOpened
		if e.moment.Sub(k.sent) < openedWithin {
			facts.Command = k.command
		}
	}
	e.record(&k.passages, kind, facts)
}

// updateDoors records unlocks whose doors were not opened.
func (l *live) updateDoors(e *effect) {
	for i := range l.locks {
		k, id := &l.locks[i], site.LockID(i+1)
		if !k.awaited || k.status == site.Unlocked || e.moment.Sub(k.released) < openedWithin {
			continue
		}
		k.awaited = false
		if k.door == site.DoorClosed && l.present(k.doorOn) {
			e.record(&k.passages, site.KindNotOpened, site.Facts{Station: l.id, Lock: id.String(), Command: k.command, Detail: detailNotOpened})
		}
	}
}

// Releasing notes that a command is about to be sent which unlocks a lock: to open
// its door is right from now on. It is quick and waits for no storage.
func (s *Service) Releasing(id site.StationID, number site.LockID, command site.CommandID) {
	moment := time.Now()
	s.withLock(id, number, func(k *lock) { k.released, k.sent, k.command, k.awaited = moment, moment, command, false })
}

// Unlocked notes how a command ended that was sent. Quick, as Releasing is.
func (s *Service) Unlocked(id site.StationID, number site.LockID, command site.CommandID, outcome site.Outcome) {
	switch outcome {
	case site.Refused, site.Failed, site.Expired:
		if l, ok := s.find(id); ok {
			s.refused(l, detailRefused)
		}
	case site.Acknowledged, site.Done:
		s.withLock(id, number, func(k *lock) { k.awaited = k.command == command && k.door == site.DoorClosed })
	}
}

// withLock calls f for a lock with mu held, if there is such a lock.
func (s *Service) withLock(id site.StationID, number site.LockID, f func(*lock)) {
	s.with(id, func(l *live) {
		if number >= 1 && int(number) <= len(l.locks) {
			f(&l.locks[number-1])
		}
	})
}
