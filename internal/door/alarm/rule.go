package alarm

import (
	"fmt"
	"strings"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// rule is what holds for one kind of alarm.
type rule struct {
	limit  time.Duration // how long its cause has to hold; 0: it is switched off
	settle time.Duration // how long its cause must have ended before it clears: what is over at once stays to be seen
	means  string
	advice string
}

// rules returns the rules of all kinds, which are the codes of their conditions too. A kind
// that is unknown is switched off.
func (l Limits) rules() map[site.Kind]rule {
	return map[site.Kind]rule{
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

// Report raises one condition for each kind of the alarms that stand, with the names of
// the first few places, and clears those of all other kinds.
func Report(conditions *health.Registry, stations []site.Station, standing map[site.StationID][]Standing) {
	for kind, r := range (Limits{}).rules() {
		c := health.Condition{Code: health.Code(kind), Severity: health.Warning, Advice: r.advice}
		var places []string
		for _, st := range stations {
			for _, a := range standing[st.ID] {
				if a.Kind != kind {
					continue
				}
				places = append(places, place(st, a.Lock))
				if c.Since.IsZero() || a.Since.Before(c.Since.Time) {
					c.Since = a.Since
				}
			}
		}
		if len(places) == 0 {
			conditions.Clear(c.Code)
			continue
		}
		c.Summary = strings.ToUpper(r.means[:1]) + r.means[1:] + ": " + strings.Join(places[:min(named, len(places))], ", ")
		if more := len(places) - named; more > 0 {
			c.Summary += fmt.Sprintf(" and %d more", more)
		}
		conditions.Raise(c)
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
