package station

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// maxVoltage is the highest battery voltage that is believed.
	maxVoltage = 60
	// maxFirmware is the longest name of a firmware, in characters.
	maxFirmware = 64
	// rearm is how far above the low mark a battery must rise, in volts, before it
	// can be called low again.
	rearm = 0.1
)

// Report is what a station states of itself; package stationlink reads it.
type Report struct {
	BatteryVoltage *float64                           // nil: not stated
	Firmware       *string                            // nil: not stated
	Locks          [site.MaxLocks + 1]site.LockStatus // by lock id; empty: not stated
	Doors          [site.MaxLocks + 1]site.DoorStatus // likewise
	ByResult       bool                               // the station answers each command by a result

	faults int
	why    string // the first of them
}

// Refuse counts a statement that cannot be right. Why is a constant text: it quotes
// nothing of the report.
func (r *Report) Refuse(why string) {
	if r.faults == 0 {
		r.why = why
	}
	r.faults++
}

// Report applies a report (contract, section 2): what it states validly counts,
// whatever else it states. [fault.Invalid] when something in it could not be right;
// [fault.NotFound] when the station is not enrolled.
func (s *Service) Report(id site.StationID, r *Report) error {
	err := s.transition(id, func(l *live, e *effect) {
		l.heard = e.now
		s.applyBattery(l, e, r)
		l.applyFirmware(e, r)
		l.dirty = l.dirty || l.byResult != r.ByResult
		l.byResult = r.ByResult
		for i, status := range &r.Locks {
			id, door := site.LockID(i), r.Doors[i]
			if status == "" && door == "" {
				continue
			}
			if id < 1 || i > len(l.locks) {
				r.Refuse("a lock that the station does not have")
				continue
			}
			if status != "" {
				l.applyLock(e, id, status)
				l.locks[i-1].statusOn = l.connection
			}
			if door != "" { // after the lock: an unlocked one explains an open door
				s.applyDoor(l, e, id, door)
			}
		}
	})
	if err != nil || r.faults == 0 {
		return err
	}
	s.cfg.Metrics.Counter("gatehouse_station_reports_invalid_total").Inc()
	return fault.Wrap(fault.Invalid, "The report states what cannot be right", fmt.Errorf("%s (%d in all)", r.why, r.faults))
}

// LockReported applies the status of a lock that the result of a command states. A lock
// that the station does not have, and a status that does not exist, change nothing.
func (s *Service) LockReported(id site.StationID, lock site.LockID, status site.LockStatus) {
	if _, err := site.ParseLockStatus(string(status)); err != nil {
		return
	}
	_ = s.transition(id, func(l *live, e *effect) {
		l.heard = e.now
		if lock >= 1 && int(lock) <= len(l.locks) {
			l.applyLock(e, lock, status)
		}
	})
}

func (s *Service) applyBattery(l *live, e *effect, r *Report) {
	if r.BatteryVoltage == nil {
		return
	}
	volts := *r.BatteryVoltage
	if !validVoltage(volts) {
		r.Refuse("batteryVoltage is not a voltage")
		return
	}
	s.noteBattery(l, volts, e.now)
	if l.battery != nil && *l.battery == volts {
		return
	}
	next := volts // allocated only where it is another one
	l.battery = &next
	e.event = true
	switch {
	case volts >= s.cfg.BatteryLow+rearm:
		l.low = false
	case volts < s.cfg.BatteryLow && !l.low:
		l.low = true
		e.record(&l.lowBattery, site.KindBatteryLow, site.Facts{Station: l.id, BatteryVoltage: l.battery})
	}
}

func (l *live) applyFirmware(e *effect, r *Report) {
	switch {
	case r.Firmware == nil:
	case *r.Firmware == "" || !validFirmware(*r.Firmware):
		r.Refuse("firmware is not a short text")
	case *r.Firmware != l.firmware:
		l.firmware, e.event = *r.Firmware, true
	}
}

// applyLock takes over the status of a lock that the station has.
// lastUpdated moves whether or not the status changed.
func (l *live) applyLock(e *effect, id site.LockID, status site.LockStatus) {
	k := &l.locks[id-1]
	k.updated = e.now
	if k.status == status {
		return
	}
	if k.status == site.Unlocked || status == site.Unlocked {
		k.released = e.moment
	}
	k.status, e.event = status, true
	l.recordLock(e, id, "")
}

func validVoltage(v float64) bool { return v > 0 && v <= maxVoltage }

// validFirmware accepts the empty text too: none reported yet.
func validFirmware(text string) bool {
	bad := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	return utf8.RuneCountInString(text) <= maxFirmware && !strings.ContainsFunc(text, bad)
}
