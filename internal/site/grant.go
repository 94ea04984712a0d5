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

	From     time.Time // zero: from ever
	Until    time.Time // zero: for ever
	Hours    Schedule  // empty: at any hour
	Holidays Schedule  // the hours on holidays; empty: as on other days
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

// SameTerms reports whether two grants hold at the same times.
func (g Grant) SameTerms(other Grant) bool {
	return g.From.Equal(other.From) && g.Until.Equal(other.Until) &&
		g.Hours.String() == other.Hours.String() && g.Holidays.String() == other.Holidays.String()
}

// Text words when the grant holds, with its times as stamp words them: "until …,
// Mon-Fri 08:00-18:00, on holidays none"; "" is at any time.
func (g Grant) Text(stamp func(time.Time) string) string {
	var parts []string
	add := func(stated bool, words string) {
		if stated {
			parts = append(parts, words)
		}
	}
	add(!g.From.IsZero(), "from "+stamp(g.From))
	add(!g.Until.IsZero(), "until "+stamp(g.Until))
	add(!g.Hours.IsZero(), g.Hours.String())
	add(!g.Holidays.IsZero(), "on holidays "+g.Holidays.String())
	return strings.Join(parts, ", ")
}

// Covers reports whether the grant holds at t; zone is the gateway's own time zone, in
// which the hours and the holidays are meant. Hours that run past midnight belong to the
// day on which they start: on the morning of a holiday the hours of the evening before
// still hold, and on the morning after it those of the holiday. It does not allocate.
func (g Grant) Covers(t time.Time, zone *time.Location, holidays *Calendar) bool {
	if !g.From.IsZero() && t.Before(g.From) || !g.Until.IsZero() && !t.Before(g.Until) {
		return false
	}
	t = t.In(zone)
	today, yesterday := g.Hours, g.Hours
	if !g.Holidays.IsZero() {
		year, month, day := t.Date()
		if holidays.Has(year, month, day) {
			today = g.Holidays
		}
		if holidays.Has(year, month, day-1) {
			yesterday = g.Holidays
		}
	}
	minute := t.Hour()*60 + t.Minute()
	return today.coversOn(t.Weekday(), minute) || yesterday.coversAfter((t.Weekday()+6)%7, minute)
}
