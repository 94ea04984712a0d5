package station

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// live is one enrolled station with all that is known of it now.
type live struct {
	id       site.StationID
	enrolled atomic.Pointer[enrolment] // replaced whole, in the station's turn and with mu held

	// turn puts the transitions of this station in order: it is held until their
	// event and their records are out, and taken before mu. Readers never take it.
	turn sync.Mutex

	mu      sync.Mutex // mu guards what follows
	removed bool       // no longer enrolled; nothing may change it any more
	// connection alone decides presence: the station is online while it has one.
	connection site.ConnectionID
	connected  time.Time    // when it was made, a reading of [time.Now]
	heard      time.Time    // zero before the first contact
	battery    *float64     // volts; what it points to never changes
	low        bool         // the battery is known to be low
	point      BatteryPoint // of the present day; 0 V: it is saved
	firmware   string
	byResult   bool   // it answers each command by a result
	locks      []lock // lock-1 first, as many as were enrolled

	alarms   []alarm
	refusals limit.Bucket // empty: there are often some
	ending   bool         // the run of the process ends, and every record is due

	presence, lowBattery trail

	dirty bool      // something beside heard changed since the last save
	saved time.Time // what was last saved of heard
}

// enrolment is what an administrator decided of a station. It never changes.
type enrolment struct {
	station    site.Station
	generation uint64 // differs for every secret that any station ever had
}

// lock is what is known of one lock.
type lock struct {
	status  site.LockStatus
	updated time.Time
	changes trail

	passage
}

func newLive(st site.Station, generation uint64) *live {
	l := &live{id: st.ID, presence: presenceTrail(), lowBattery: batteryTrail()}
	l.enrolled.Store(&enrolment{station: st, generation: generation})
	l.resize(st.Locks)
	return l
}

// resize sets the number of locks: those beyond are forgotten, new ones are
// unknown.
func (l *live) resize(n int) {
	l.locks = l.locks[:min(n, len(l.locks)):min(n, len(l.locks))]
	for len(l.locks) < n {
		l.locks = append(l.locks, lock{status: site.Unknown, changes: lockTrail(), passage: passage{passages: lockTrail()}})
	}
	l.alarms = slices.DeleteFunc(l.alarms, func(a alarm) bool { return int(a.Lock) > n })
}

// restore takes over a saved state, as far as it makes sense for the station.
func (l *live) restore(saved SavedState, batteryLow float64) {
	l.heard, l.saved = saved.LastConnection, saved.LastConnection
	if v := saved.BatteryVoltage; v != nil && validVoltage(*v) {
		l.battery, l.low = v, *v < batteryLow
	}
	if validFirmware(saved.Firmware) {
		l.firmware = saved.Firmware
	}
	l.byResult = saved.ByResult
	for _, k := range saved.Locks {
		status, err := site.ParseLockStatus(string(k.Status))
		if err != nil || !l.enrolled.Load().station.HasLock(k.ID) {
			l.dirty = true // what was left out must not come back later
			continue
		}
		to := &l.locks[k.ID-1]
		to.status, to.updated = status, k.LastUpdated.Time
		if door, err := site.ParseDoorStatus(string(k.Door)); err == nil {
			to.door, to.doorSince = door, k.DoorSince.Time
		}
	}
	l.restoreAlarms(saved.Alarms)
}

// online reports whether the station has a live connection; mu is held.
func (l *live) online() bool { return l.connection != 0 }

// State returns what is known of a station now, as a copy.
func (s *Service) State(id site.StationID) (state site.StationState, ok bool) {
	ok = s.with(id, func(l *live) { state = l.state() })
	return state, ok
}

// Firmware returns the firmware that a station last reported; empty when it
// reported none or is not enrolled.
func (s *Service) Firmware(id site.StationID) (name string) {
	s.with(id, func(l *live) { name = l.firmware })
	return name
}

// AnswersByResult reports whether a station answers each command by a result, by its latest report.
func (s *Service) AnswersByResult(id site.StationID) (byResult bool) {
	s.with(id, func(l *live) { byResult = l.byResult })
	return byResult
}

// state copies the state; mu is held.
func (l *live) state() site.StationState {
	st := site.StationState{
		ID: l.id, Status: site.Offline, LastConnection: site.At(l.heard), Locks: l.lockStates(),
	}
	if l.online() {
		st.Status = site.Online
	}
	if l.battery != nil {
		volts := *l.battery
		st.BatteryVoltage = &volts
	}
	return st
}

func (l *live) lockStates() []site.Lock {
	out := make([]site.Lock, len(l.locks))
	for i, k := range l.locks {
		out[i] = site.Lock{
			ID: site.LockID(i + 1), Status: k.status, LastUpdated: site.At(k.updated), Door: k.door, DoorSince: site.At(k.doorSince),
		}
	}
	return out
}

// transition lets change work on a station, then wakes subscribers and writes to the
// journal; all in the order in which transitions of that station happen. change
// runs with mu held. It fails with [fault.NotFound] when there is no such station.
func (s *Service) transition(id site.StationID, change func(*live, *effect)) error {
	l, ok := s.find(id)
	if !ok {
		return errNotFound()
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	e, state, ok := l.turnInto(change, s.cfg.Clock.Now())
	if !ok {
		return errNotFound()
	}
	if e.event {
		s.add(state)
	}
	for _, r := range e.records {
		s.cfg.Journal.AppendLater(r)
	}
	return nil
}

// turnInto runs change with mu held; turn is held. The state is given where an
// event needs it.
func (l *live) turnInto(change func(*live, *effect), now time.Time) (e effect, state site.StationState, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return e, state, false
	}
	e.now, e.moment = now, time.Now()
	change(l, &e)
	if e.event {
		l.dirty = true
		state = l.state()
	}
	return e, state, true
}
