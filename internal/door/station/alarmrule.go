package station

import (
	"fmt"
	"strings"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// AlarmLimits are from when on each alarm is raised; zero switches one off.
type AlarmLimits struct {
	DoorForced    time.Duration // how long after an unlock or an exit a door may still be opened
	DoorHeld      time.Duration // how long a door may be open
	LeftUnlocked  time.Duration // how long a lock may be unlocked
	StationSilent time.Duration // how long a station may have no connection
	RefusedOften  int           // how many unlocks and logins of a station may fail within ten minutes
}

// alarmRule is what holds for one kind of alarm.
type alarmRule struct {
	limit  time.Duration // how long its cause has to hold; 0: it is switched off
	settle time.Duration // how long its cause must have ended before it clears: what is over at once stays to be seen
	means  string
	advice string
}

// rules returns the rules of all kinds, which are the codes of their conditions too. A kind
// that is unknown is switched off.
func (l AlarmLimits) rules() map[site.Kind]alarmRule {
	return map[site.Kind]alarmRule{
		site.KindDoorForced: {
			l.DoorForced, 10 * time.Minute, "opened without an unlock or an exit",
			"Look at the door, and see \"gatehouse journal --kind door-forced\"; the condition clears ten minutes after the door is closed. Where people go out without the station's report of it, set door_forced = \"0s\" in [alarm]",
		},
		site.KindDoorHeld: {
			l.DoorHeld, time.Second, "open for too long",
			"Close the door, or look at its sensor; how long is too long is door_held in [alarm]",
		},
		site.KindLeftUnlocked: {
			l.LeftUnlocked, time.Second, "unlocked for too long",
			"Lock it, or look at the lock; how long is too long is left_unlocked in [alarm]",
		},
		site.KindStationSilent: {
			l.StationSilent, 30 * time.Second, "no connection for too long",
			"The gateway can open no lock there: check the power and the network of the station, then \"gatehouse station show N\"; remove a station that is gone with \"gatehouse station remove N\"",
		},
		site.KindRefusedOften: {
			time.Duration(l.RefusedOften), 30 * time.Minute, "unlocks or logins fail often",
			"See why with \"gatehouse journal --station N\": a station that refuses or does not answer unlocks needs a look; after logins with a wrong password check who uses its name, and give it a new one with \"gatehouse station rotate N\"",
		},
	}
}

// named is how many places a condition names.
const named = 5

// reportAlarms raises one health condition for each kind of the alarms that stand, with the
// names of the first few places, and clears those of all other kinds.
func (s *Service) reportAlarms() {
	places, since := make(map[site.Kind][]string), make(map[site.Kind]site.Timestamp)
	for _, l := range s.all() {
		l.mu.Lock()
		standing := l.standing()
		l.mu.Unlock()
		for _, a := range standing {
			places[a.Kind] = append(places[a.Kind], place(l.enrolled.Load().station, a.Lock))
			if earliest := since[a.Kind]; earliest.IsZero() || a.Since.Before(earliest.Time) {
				since[a.Kind] = a.Since
			}
		}
	}
	for kind, r := range (AlarmLimits{}).rules() {
		at, code := places[kind], health.Code(kind)
		if len(at) == 0 {
			s.cfg.Health.Clear(code)
			continue
		}
		summary := strings.ToUpper(r.means[:1]) + r.means[1:] + ": " + strings.Join(at[:min(named, len(at))], ", ")
		if more := len(at) - named; more > 0 {
			summary += fmt.Sprintf(" and %d more", more)
		}
		s.cfg.Health.Raise(health.Condition{Code: code, Severity: health.Warning, Summary: summary, Advice: r.advice, Since: since[kind]})
	}
}

// place returns "station 1042 (North entrance) lock-1".
func place(st site.Station, lock site.LockID) string {
	text := "station " + st.ID.String()
	if st.Name != "" {
		text += " (" + st.Name + ")"
	}
	if lock != 0 {
		text += " " + lock.String()
	}
	return text
}
