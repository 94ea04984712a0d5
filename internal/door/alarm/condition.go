package alarm

import (
	"fmt"
	"strings"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// Standing is one alarm that stands.
type Standing struct {
	Kind    site.Kind
	Station site.Station
	Lock    site.LockID // 0: of the station
	Since   site.Timestamp
}

// named is how many of them a condition names.
const named = 5

// words are what a condition of one kind says.
type words struct {
	kind            site.Kind
	code            health.Code
	summary, advice string
}

// vocabulary has the conditions of all kinds.
func vocabulary() []words {
	return []words{
		{
			site.KindDoorForced, health.DoorForced, "Opened without an unlock or an exit",
			"Look at the door, and see \"gatehouse journal --kind door-forced\"; the condition clears ten minutes after the door is closed. Where people go out without the station's report of it, set door_forced = \"0s\" in [alarm]",
		},
		{
			site.KindDoorHeld, health.DoorHeld, "Open for too long",
			"Close the door, or look at its sensor; how long is too long is door_held in [alarm]",
		},
		{
			site.KindLeftUnlocked, health.LeftUnlocked, "Unlocked for too long",
			"Lock it, or look at the lock; how long is too long is left_unlocked in [alarm]",
		},
		{
			site.KindStationSilent, health.StationSilent, "No connection for too long, so that the gateway can open no lock there",
			"Check the power and the network of the station, then \"gatehouse station show N\"; remove a station that is gone with \"gatehouse station remove N\"",
		},
		{
			site.KindRefusedOften, health.RefusedOften, "Unlocks or logins fail often",
			"See why with \"gatehouse journal --station N\": a station that refuses or does not answer unlocks needs a look; after logins with a wrong password check who uses its name, and give it a new one with \"gatehouse station rotate N\"",
		},
	}
}

// Report raises one condition for each kind of the alarms that stand, with the names of
// the first few, and clears those of all other kinds.
func Report(conditions *health.Registry, standing []Standing) {
	for _, w := range vocabulary() {
		c := health.Condition{Code: w.code, Severity: health.Warning, Advice: w.advice}
		var names []string
		count := 0
		for _, s := range standing {
			if s.Kind != w.kind {
				continue
			}
			if count++; count <= named {
				names = append(names, s.name())
			}
			if c.Since.IsZero() || s.Since.Before(c.Since.Time) {
				c.Since = s.Since
			}
		}
		if count == 0 {
			conditions.Clear(w.code)
			continue
		}
		c.Summary = w.summary + ": " + strings.Join(names, ", ")
		if more := count - len(names); more > 0 {
			c.Summary += fmt.Sprintf(" and %d more", more)
		}
		conditions.Raise(c)
	}
}

// name returns "station 1042 (North entrance) lock-1".
func (s Standing) name() string {
	text := "station " + s.Station.ID.String()
	if s.Station.Name != "" {
		text += " (" + s.Station.Name + ")"
	}
	if s.Lock != 0 {
		text += " " + s.Lock.String()
	}
	return text
}
