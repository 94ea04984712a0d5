package stationlink

import (
	"encoding/json"
	"math"
	"unicode/utf8"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

const (
	// maxUptime is the longest uptime that is believed, in milliseconds: up to it every
	// JSON reader has whole numbers.
	maxUptime = 1 << 53
	// maxDrift is the largest drift that a station may state of its clock, in millionths
	// (contract, section 2).
	maxDrift = 50_000
)

// Uptime is what a report states of the station's own monotonic clock (contract, section
// 2). The zero value states nothing.
type Uptime struct {
	Stated       bool
	Milliseconds int64 // since the station's start, 0 to 2⁵³
	DriftStated  bool
	Drift        int64 // how far the clock may be off, in millionths, 0 to 50,000
}

// Terms are what a report states of the connection that it comes on. The zero value states
// nothing.
type Terms struct {
	Uptime  Uptime
	Results bool // the station answers each command by a result; its PUBACK only says that it has the packet
}

// ParseReport reads the payload of stations/<id>/report. It reads each field by itself, so
// that a wrong one stops no other. What the types forbid is refused; whether the values
// make sense for the station is judged by package station.
func ParseReport(payload []byte) (*station.Report, Terms) {
	r := fields{report: &station.Report{}}
	if !utf8.Valid(payload) || json.Unmarshal(payload, &r.raw) != nil || r.raw == nil {
		r.report.Refuse("it is not a JSON object in UTF-8")
		return r.report, Terms{}
	}
	if volts, ok := field[float64](r, "batteryVoltage", "batteryVoltage is not a voltage"); ok {
		r.report.BatteryVoltage = &volts
	}
	if text, ok := field[string](r, "firmware", "firmware is not a short text"); ok {
		r.report.Firmware = &text
	}
	if locks, ok := field[[]json.RawMessage](r, "locks", "locks is not a list"); ok {
		r.readLocks(locks)
	}
	return r.report, Terms{Uptime: r.uptime(), Results: r.results()}
}

// fields are the fields of a report by name; of a name that comes twice the last value
// counts. Names are case-sensitive.
type fields struct {
	raw    map[string]json.RawMessage
	report *station.Report
}

// field reads a field; ok is false where it is not stated, or refused with that reason.
func field[T any](r fields, name, why string) (v T, ok bool) {
	raw, stated := r.raw[name]
	if !stated {
		return v, false
	}
	if v, ok = value[T](raw); !ok {
		r.report.Refuse(why)
	}
	return v, ok
}

// value reads a JSON value of type T; an absent value and null are none.
func value[T any](raw json.RawMessage) (v T, ok bool) {
	ok = len(raw) > 0 && string(raw) != "null" && json.Unmarshal(raw, &v) == nil
	return v, ok
}

func (r fields) readLocks(list []json.RawMessage) {
	if len(list) > site.MaxLocks {
		r.report.Refuse("locks is too long a list")
		list = list[:site.MaxLocks]
	}
	for _, item := range list {
		r.readLock(item)
	}
}

// readLock reads one lock: its status, its door, or both.
func (r fields) readLock(raw json.RawMessage) {
	const notLock, notDoor = "one of locks is not a lock with a status", "door is not open, closed or unknown"
	of, _ := value[map[string]json.RawMessage](raw)
	name, _ := value[string](of["lockId"])
	lock, err := site.ParseLockID(name)
	_, status := of["status"]
	_, door := of["door"]
	if err != nil || !status && !door {
		r.report.Refuse(notLock)
		return
	}
	if status {
		readWord(r, of["status"], &r.report.Locks[lock], site.ParseLockStatus, notLock)
	}
	if door {
		readWord(r, of["door"], &r.report.Doors[lock], site.ParseDoorStatus, notDoor)
	}
}

// readWord reads a word that parse knows into where it belongs, or refuses it.
func readWord[T ~string](r fields, raw json.RawMessage, into *T, parse func(string) (T, error), why string) {
	text, _ := value[string](raw)
	word, err := parse(text)
	if err != nil {
		r.report.Refuse(why)
		return
	}
	*into = word
}

// uptime reads both statements about the station's clock. A fraction of a millisecond is
// dropped.
func (r fields) uptime() (u Uptime) {
	const notUptime, notDrift = "uptime is not a number of milliseconds", "uptimeDrift is not a number of millionths"
	if ms, ok := field[float64](r, "uptime", notUptime); ok {
		if u.Stated = ms >= 0 && ms <= maxUptime; u.Stated {
			u.Milliseconds = int64(ms)
		} else {
			r.report.Refuse(notUptime)
		}
	}
	if drift, ok := field[float64](r, "uptimeDrift", notDrift); ok {
		if u.DriftStated = drift >= 0 && drift <= maxDrift; u.DriftStated {
			u.Drift = int64(math.Ceil(drift))
		} else {
			r.report.Refuse(notDrift)
		}
	}
	return u
}

// results reads how the station answers commands.
func (r fields) results() bool {
	const why = `answers is not "result"`
	answers, ok := field[string](r, "answers", why)
	if ok && answers != "result" {
		r.report.Refuse(why)
	}
	return ok && answers == "result"
}
