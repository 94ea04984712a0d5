package site

import (
	"fmt"
	"strings"
	"time"
)

// Schedule is a set of weekly opening hours, such as "Mon-Fri 08:00-18:00" or
// "Mon-Fri 08:00-18:00, Sat 10:00-14:00". The zero Schedule covers every moment, "none"
// covers no moment. Hours without days, "10:00-14:00", are those of every day.
// A span whose end is not after its start ("22:00-06:00") runs past midnight and
// belongs to the day on which it starts.
type Schedule struct {
	spans []span
	none  bool
}

// noHours is the text of the schedule that covers no moment.
const noHours = "none"

// span is one part of a schedule; minutes count from midnight.
type span struct {
	first, last int // by time.Weekday; last may be before first, as in Fri-Mon
	start, end  int // end may be 1440 (24:00)
}

const minutesOfDay = 24 * 60

// maxSpans bounds a schedule, because it is parsed from outside and walked for
// every unlock.
const maxSpans = 16

var weekdays = [7]string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// ParseSchedule reads a schedule; the empty text is the schedule without limits.
func ParseSchedule(text string) (Schedule, error) {
	switch strings.TrimSpace(text) {
	case "":
		return Schedule{}, nil
	case noHours:
		return Schedule{none: true}, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxSpans {
		return Schedule{}, fmt.Errorf("the hours name %d spans; at most %d", len(parts), maxSpans)
	}
	var s Schedule
	for _, part := range parts {
		sp, err := parseSpan(part)
		if err != nil {
			return Schedule{}, err
		}
		s.spans = append(s.spans, sp)
	}
	return s, nil
}

func parseSpan(text string) (span, error) {
	fields := strings.Fields(text)
	bad := fmt.Errorf("%q are not hours: write them like \"Mon-Fri 08:00-18:00\"", Clip(strings.TrimSpace(text)))
	if len(fields) == 1 {
		fields = []string{"Mon-Sun", fields[0]}
	}
	if len(fields) != 2 {
		return span{}, bad
	}
	first, last, isRange := strings.Cut(fields[0], "-")
	if !isRange {
		last = first
	}
	from, ok1 := weekday(first)
	to, ok2 := weekday(last)
	begin, end, ok3 := strings.Cut(fields[1], "-")
	start, ok4 := clockMinutes(begin)
	stop, ok5 := clockMinutes(end)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || start == stop || start == minutesOfDay {
		return span{}, bad
	}
	return span{from, to, start, stop}, nil
}

// overnight reports whether the span runs past midnight.
func (sp span) overnight() bool { return sp.end < sp.start }

// on reports whether the span begins on that day of the week.
func (sp span) on(day int) bool { return (day-sp.first+7)%7 <= (sp.last-sp.first+7)%7 }

func weekday(text string) (int, bool) {
	for i, name := range weekdays {
		if strings.EqualFold(name, text) {
			return i, true
		}
	}
	return 0, false
}

// clockMinutes reads "08:00" to "24:00".
func clockMinutes(text string) (int, bool) {
	const layout = "15:04"
	if text == "24:00" {
		return minutesOfDay, true
	}
	t, err := time.Parse(layout, text)
	return t.Hour()*60 + t.Minute(), err == nil && len(text) == len(layout)
}

// IsZero reports whether the schedule is the one without limits.
func (s Schedule) IsZero() bool { return len(s.spans) == 0 && !s.none }

// Within reports whether the hours of each day are within those of other of the same day, so
// that it is so too where some days have no hours, as holidays may.
func (s Schedule) Within(other Schedule) bool {
	minutes := []int{0} // at one of these begins what s covers and other does not
	for _, sp := range s.spans {
		minutes = append(minutes, sp.start)
	}
	for _, sp := range other.spans {
		minutes = append(minutes, sp.end%minutesOfDay)
	}
	for day := range time.Weekday(7) {
		for _, m := range minutes {
			if s.coversOn(day, m) && !other.coversOn(day, m) || s.coversAfter(day, m) && !other.coversAfter(day, m) {
				return false
			}
		}
	}
	return true
}

// Meet returns the hours of each day that are within both, and none where that would take too
// many spans.
func (s Schedule) Meet(other Schedule) (both Schedule) {
	switch {
	case other.Within(s):
		return other
	case s.Within(other):
		return s
	}
	for _, a := range s.daily() {
		for _, b := range other.daily() {
			both.spans = append(both.spans, a.meet(b)...)
		}
	}
	if n := len(both.spans); n == 0 || n > maxSpans {
		return Schedule{none: true}
	}
	return both
}

// daily returns the spans of the schedule, also of the one without limits.
func (s Schedule) daily() []span {
	if s.IsZero() {
		return []span{{0, 6, 0, minutesOfDay}}
	}
	return s.spans
}

// meet returns what two spans that begin on the same days have in common.
func (sp span) meet(other span) (both []span) {
	start, end := max(sp.start, other.start), min(sp.until(), other.until())
	if start >= end {
		return nil
	}
	for day := range 7 {
		switch n := len(both); {
		case !sp.on(day) || !other.on(day):
		case n > 0 && both[n-1].last == day-1:
			both[n-1].last = day
		default:
			both = append(both, span{day, day, start, (end-1)%minutesOfDay + 1})
		}
	}
	return both
}

// until returns the end of the span in minutes since the midnight before its start.
func (sp span) until() int {
	if sp.overnight() {
		return sp.end + minutesOfDay
	}
	return sp.end
}

// coversOn reports whether the hours that belong to a day of the week cover a minute of
// that day.
func (s Schedule) coversOn(day time.Weekday, minute int) bool {
	for _, sp := range s.spans {
		if sp.on(int(day)) && minute >= sp.start && (sp.overnight() || minute < sp.end) {
			return true
		}
	}
	return s.IsZero()
}

// coversAfter reports whether the hours that belong to a day of the week run past midnight
// and cover a minute of the day after.
func (s Schedule) coversAfter(day time.Weekday, minute int) bool {
	for _, sp := range s.spans {
		if sp.overnight() && sp.on(int(day)) && minute < sp.end {
			return true
		}
	}
	return false
}

// String returns the schedule in the form that [ParseSchedule] reads.
func (s Schedule) String() string {
	if s.none {
		return noHours
	}
	parts := make([]string, 0, len(s.spans))
	for _, sp := range s.spans {
		days := weekdays[sp.first]
		if sp.last != sp.first {
			days += "-" + weekdays[sp.last]
		}
		parts = append(parts, fmt.Sprintf("%s %02d:%02d-%02d:%02d", days, sp.start/60, sp.start%60, sp.end/60, sp.end%60))
	}
	return strings.Join(parts, ", ")
}

// MarshalText implements [encoding.TextMarshaler].
func (s Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseSchedule].
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSchedule(string(text))
	return err
}
