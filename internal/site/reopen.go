package site

import "time"

// maxReopen is how many days ahead [Terms.Reopens] looks: more than a range of holidays has.
const maxReopen = maxHolidayDays + 7

// Reopens returns the first moment after a time at which a grant of these terms holds again,
// where it does not hold at that time. ok is false where there is none within a year.
func (t Terms) Reopens(after time.Time, zone *time.Location, holidays *Calendar) (at time.Time, ok bool) {
	if t.From.After(after) {
		if t.Covers(t.From.Time, zone, holidays) {
			return t.From.Time, true
		}
		after = t.From.Time
	}
	if t.Hours.none && (t.Holidays.none || t.Holidays.IsZero()) {
		return time.Time{}, false
	}
	first := after.In(zone)
	for day := range maxReopen {
		noon := time.Date(first.Year(), first.Month(), first.Day()+day, 12, 0, 0, 0, time.UTC)
		for _, candidate := range t.openings(noon, zone) {
			if candidate.After(after) && t.Covers(candidate, zone, holidays) && (!ok || candidate.Before(at)) {
				at, ok = candidate, true
			}
		}
		if ok || !t.Until.IsZero() && noon.After(t.Until.Add(36*time.Hour)) {
			break
		}
	}
	return at, ok
}

// openings returns the moments of a day at which the terms may begin to hold: midnight, the
// start of each span, and a change of the zone's offset, as it may skip a start. noon is the
// day, in UTC.
func (t Terms) openings(noon time.Time, zone *time.Location) (all []time.Time) {
	year, month, day := noon.Date()
	add := func(candidate time.Time, minute int) {
		local := candidate.In(zone)
		y, m, d := local.Date()
		if y == year && m == month && d == day && (minute < 0 || local.Hour()*60+local.Minute() == minute) {
			all = append(all, candidate)
		}
	}
	_, before := noon.Add(-24 * time.Hour).In(zone).Zone()
	_, later := noon.Add(24 * time.Hour).In(zone).Zone()
	start := func(minute int) { // a time of the day may come twice, or never
		wall := time.Date(year, month, day, 0, minute, 0, 0, time.UTC)
		add(wall.Add(-time.Duration(before)*time.Second), minute)
		if later != before {
			add(wall.Add(-time.Duration(later)*time.Second), minute)
		}
	}
	start(0)
	for _, spans := range [][]span{t.Hours.spans, t.Holidays.spans} {
		for _, sp := range spans {
			start(sp.start)
		}
	}
	if later != before {
		changed, _ := noon.Add(24 * time.Hour).In(zone).ZoneBounds()
		add(changed, -1)
	}
	return all
}
