package station

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// maxReport is the largest report that is read, in bytes; the broker ends
	// connections that send more (contract, section 2).
	maxReport = 8 << 10
	// maxVoltage is the highest battery voltage that is believed.
	maxVoltage = 60
	// maxFirmware is the longest name of a firmware, in characters.
	maxFirmware = 64
	// maxUptime is the longest uptime that is believed, in milliseconds: up to it every
	// JSON reader has whole numbers.
	maxUptime = 1 << 53
	// rearm is how far above the low mark a battery must rise, in volts, before it
	// can be called low again.
	rearm = 0.1
)

// report is what a payload states validly.
type report struct {
	battery  float64                            // zero: not stated
	firmware string                             // empty: not stated
	locks    [site.MaxLocks + 1]site.LockStatus // by lock id; empty: not stated
	uptime   site.Uptime
	faults   int    // statements that cannot be right
	why      string // the first of them, in constant words
}

// Report applies a report (contract, section 2): what it states validly counts,
// whatever else it says. An error of kind [fault.Invalid] says that something in
// it could not be right; the station is none the worse for it, and the error
// quotes nothing of the payload. It fails with [fault.NotFound] when the station
// is not enrolled. What is stated validly of the station's uptime is returned, also
// beside an error: it belongs to the connection.
func (s *Service) Report(id site.StationID, payload []byte) (site.Uptime, error) {
	r := parseReport(payload)
	err := s.transition(id, func(l *live, e *effect, now time.Time) {
		l.heard = now
		s.applyBattery(l, e, r.battery, now)
		if r.firmware != "" && r.firmware != l.firmware {
			l.firmware, e.event = r.firmware, true
		}
		for lock, status := range &r.locks {
			if status != "" && !l.applyLock(e, site.LockID(lock), status, now) {
				r.refuse("a lock that the station does not have")
			}
		}
	})
	if err != nil || r.faults == 0 {
		return r.uptime, err
	}
	s.metrics.Counter("gatehouse_station_reports_invalid_total").Inc()
	return r.uptime, fault.Wrap(fault.Invalid, "The report states what cannot be right", fmt.Errorf("%s (%d in all)", r.why, r.faults))
}

// LockReported takes over what the result of a command says of a lock. A lock
// that the station does not have, and a status that there is not, change nothing.
func (s *Service) LockReported(id site.StationID, lock site.LockID, status site.LockStatus) {
	if _, err := site.ParseLockStatus(string(status)); err != nil {
		return
	}
	_ = s.transition(id, func(l *live, e *effect, now time.Time) {
		l.heard = now
		l.applyLock(e, lock, status, now)
	})
}

func (s *Service) applyBattery(l *live, e *effect, volts float64, now time.Time) {
	if volts == 0 || l.battery != nil && *l.battery == volts {
		return
	}
	l.setBattery(volts)
	e.event = true
	switch {
	case volts >= s.batteryLow+rearm:
		l.low = false
	case volts < s.batteryLow && !l.low:
		l.low = true
		if skipped, ok := l.batterySpan.take(now, batteryBurst, batteryEvery); ok {
			e.note(site.KindBatteryLow, site.Facts{Station: l.id, BatteryVoltage: l.battery, Count: skipped})
		}
	}
}

// applyLock takes over the status of a lock; false when there is no such lock.
// lastUpdated moves whether or not the status changed.
func (l *live) applyLock(e *effect, id site.LockID, status site.LockStatus, now time.Time) bool {
	if id < 1 || int(id) > len(l.locks) {
		return false
	}
	k := &l.locks[id-1]
	k.updated = now
	if k.status != status {
		k.status, e.event = status, true
		l.tellLock(e, id, "", now)
	}
	return true
}

// parseReport reads each field by itself, so that one that is wrong stops no
// other.
func parseReport(payload []byte) *report {
	r := &report{}
	if len(payload) > maxReport || !utf8.Valid(payload) {
		r.refuse("it is too long or not UTF-8")
		return r
	}
	fields, ok := object(payload)
	if !ok {
		r.refuse("it is not a JSON object")
		return r
	}
	if raw, stated := fields["batteryVoltage"]; stated {
		r.readBattery(raw)
	}
	if raw, stated := fields["firmware"]; stated {
		r.readFirmware(raw)
	}
	if raw, stated := fields["locks"]; stated {
		r.readLocks(raw)
	}
	r.readUptime(fields)
	return r
}

// readUptime reads both statements about the station's clock. A fraction of a millisecond
// is dropped.
func (r *report) readUptime(fields map[string]json.RawMessage) {
	if raw, stated := fields["uptime"]; stated {
		ms, err := value[float64](raw)
		if err != nil || ms < 0 || ms > maxUptime {
			r.refuse("uptime is not a number of milliseconds")
		} else {
			r.uptime.Stated, r.uptime.Milliseconds = true, int64(ms)
		}
	}
	if raw, stated := fields["uptimeDrift"]; stated {
		drift, err := value[float64](raw)
		if err != nil || drift < 0 || drift > site.MaxUptimeDrift {
			r.refuse("uptimeDrift is not a number of millionths")
		} else {
			r.uptime.DriftStated, r.uptime.Drift = true, int64(math.Ceil(drift))
		}
	}
}

func (r *report) refuse(why string) {
	if r.faults == 0 {
		r.why = why
	}
	r.faults++
}

func (r *report) readBattery(raw json.RawMessage) {
	volts, err := value[float64](raw)
	if err != nil || !validVoltage(volts) {
		r.refuse("batteryVoltage is not a voltage")
		return
	}
	r.battery = volts
}

func (r *report) readFirmware(raw json.RawMessage) {
	text, err := value[string](raw)
	if err != nil || text == "" || !validFirmware(text) {
		r.refuse("firmware is not a short text")
		return
	}
	r.firmware = text
}

func (r *report) readLocks(raw json.RawMessage) {
	list, err := value[[]json.RawMessage](raw)
	if err != nil {
		r.refuse("locks is not a list")
		return
	}
	if len(list) > site.MaxLocks {
		r.refuse("locks is too long a list")
		list = list[:site.MaxLocks]
	}
	for _, item := range list {
		r.readLock(item)
	}
}

func (r *report) readLock(raw json.RawMessage) {
	fields, _ := object(raw)
	name, err1 := value[string](fields["lockId"])
	lock, err2 := site.ParseLockID(name)
	text, err3 := value[string](fields["status"])
	status, err4 := site.ParseLockStatus(text)
	if errors.Join(err1, err2, err3, err4) != nil {
		r.refuse("one of locks is not a lock with a status")
		return
	}
	r.locks[lock] = status
}

// object takes a JSON object apart; names are case-sensitive, and of a name that
// comes twice the last value counts.
func object(raw []byte) (fields map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &fields)
	return fields, err == nil && fields != nil
}

// value reads a JSON value of type T; an absent value and null are none.
func value[T any](raw json.RawMessage) (v T, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return v, errors.New("there is no value")
	}
	err = json.Unmarshal(raw, &v)
	return v, err
}

func validVoltage(v float64) bool { return v > 0 && v <= maxVoltage }

// validFirmware accepts the empty text too: none reported yet.
func validFirmware(text string) bool {
	bad := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	return utf8.RuneCountInString(text) <= maxFirmware && !strings.ContainsFunc(text, bad)
}
