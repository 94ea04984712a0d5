package site

import (
	"strings"
	"time"
)

// Grant lets an account, or a group of accounts, use a station, or a group of stations.
// Grants add up: an account may use a station while one of them holds.
type Grant struct {
	Account      AccountID // either this
	AccountGroup GroupName // or this
	Station      StationID // either this
	StationGroup GroupName // or this
	Terms
}

// Terms are when a grant holds: from From, and before Until.
type Terms struct {
	From     Timestamp `json:"from"`              // zero: from ever
	Until    Timestamp `json:"until"`             // zero: for ever
	Hours    Schedule  `json:"hours"`             // empty: at any hour
	Holidays Schedule  `json:"holidays,omitzero"` // the hours on holidays; empty: as on other days
}

// GrantKey names a grant: for whom and for what it is. There is at most one grant of a
// key.
type GrantKey struct {
	Account      AccountID
	AccountGroup GroupName
	Station      StationID
	StationGroup GroupName
}

// Key returns the key of the grant.
func (g Grant) Key() GrantKey {
	return GrantKey{g.Account, g.AccountGroup, g.Station, g.StationGroup}
}

// Equal reports whether the other terms are the same.
func (t Terms) Equal(other Terms) bool {
	return t.From.Equal(other.From.Time) && t.Until.Equal(other.Until.Time) &&
		t.Hours.String() == other.Hours.String() && t.Holidays.String() == other.Holidays.String()
}

// Within reports whether a grant of the other terms holds whenever one of these does.
func (t Terms) Within(other Terms) bool {
	return !t.From.Before(other.From.Time) &&
		(other.Until.IsZero() || !t.Until.IsZero() && !t.Until.After(other.Until.Time)) &&
		(other.anyHour() || t.Hours.Within(other.Hours) && t.onHolidays().Within(other.onHolidays()))
}

// Meet returns the terms of a grant that holds only while grants of both do. Hours past midnight
// meet those of the day on which they start.
func (t Terms) Meet(other Terms) Terms {
	met := t
	if t.From.Before(other.From.Time) {
		met.From = other.From
	}
	if t.Until.IsZero() || !other.Until.IsZero() && other.Until.Before(t.Until.Time) {
		met.Until = other.Until
	}
	if other.anyHour() {
		return met
	}
	if met.Hours, met.Holidays = other.Hours, other.Holidays; t.anyHour() {
		return met
	}
	met.Hours = t.Hours.Meet(other.Hours)
	met.Holidays = t.onHolidays().Meet(other.onHolidays())
	if (t.Holidays.IsZero() || other.Holidays.IsZero()) && met.Holidays.String() == met.Hours.String() {
		met.Holidays = Schedule{}
	}
	return met
}

// anyHour reports whether the terms hold at any hour of every day.
func (t Terms) anyHour() bool { return t.Hours.IsZero() && t.Holidays.IsZero() }

// onHolidays returns the hours on holidays, which are those of other days unless stated.
func (t Terms) onHolidays() Schedule {
	if t.Holidays.IsZero() {
		return t.Hours
	}
	return t.Holidays
}

// Text words the terms, with their times as stamp words them: "until …,
// Mon-Fri 08:00-18:00, on holidays none"; "" is at any time.
func (t Terms) Text(stamp func(time.Time) string) string {
	var parts []string
	add := func(stated bool, words string) {
		if stated {
			parts = append(parts, words)
		}
	}
	add(!t.From.IsZero(), "from "+stamp(t.From.Time))
	add(!t.Until.IsZero(), "until "+stamp(t.Until.Time))
	add(!t.Hours.IsZero(), t.Hours.String())
	add(!t.Holidays.IsZero(), "on holidays "+t.Holidays.String())
	return strings.Join(parts, ", ")
}

// Ended reports whether a grant of these terms has ended at a time.
func (t Terms) Ended(at time.Time) bool { return !t.Until.IsZero() && !at.Before(t.Until.Time) }

// Covers reports whether a grant of these terms holds at a time. The hours and the holidays
// are meant in zone, the gateway's own. Hours that run past midnight belong to the day on
// which they start: on the morning of a holiday the hours of the evening before still hold,
// and on the morning after it those of the holiday. It does not allocate.
func (t Terms) Covers(at time.Time, zone *time.Location, holidays *Calendar) bool {
	if !t.From.IsZero() && at.Before(t.From.Time) || t.Ended(at) {
		return false
	}
	at = at.In(zone)
	today, yesterday := t.Hours, t.Hours
	if !t.Holidays.IsZero() {
		year, month, day := at.Date()
		if holidays.Has(year, month, day) {
			today = t.Holidays
		}
		if holidays.Has(year, month, day-1) {
			yesterday = t.Holidays
		}
	}
	minute := at.Hour()*60 + at.Minute()
	return today.coversOn(at.Weekday(), minute) || yesterday.coversAfter((at.Weekday()+6)%7, minute)
}
