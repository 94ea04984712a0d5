package site

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The bounds of the list of holidays.
const (
	MaxHolidays     = 500 // names
	MaxHolidayDates = 100 // dates or ranges of one name
	maxHolidayDays  = 366 // days of a range
)

// Holiday is a named entry in the list of holidays of the site.
type Holiday struct {
	Name  string  `json:"name"`
	Dates []Dates `json:"dates"` // at least one, in order
}

// ParseHolidayName returns the name without the space around it: 1 to [MaxStationName]
// characters, and [Readable].
func ParseHolidayName(text string) (string, error) {
	name, ok := CleanStationName(text)
	if !ok || strings.Trim(name, ".") == "" { // "." and ".." cannot be in a path
		return "", fmt.Errorf("%q is not the name of a holiday: write 1 to %d characters", Clip(text), MaxStationName)
	}
	return name, nil
}

// Dates are consecutive days, of one year or of every year: "2026-12-24",
// "2026-12-24..2027-01-03", "12-25", "12-24..01-06". A yearly "02-29" is in leap years
// only. Comparable with ==.
type Dates struct{ first, last time.Time } // midnight UTC; of yearly ones in everyYear

// everyYear stands for every year. It is a leap year, so it has every day.
const everyYear = 2000

// ParseDates reads dates: those of one year from 2001 on, and at most 366 days.
func ParseDates(text string) (Dates, error) {
	first, last, isRange := strings.Cut(text, "..")
	if !isRange {
		last = first
	}
	from, yearly, ok1 := parseDay(first)
	to, alsoYearly, ok2 := parseDay(last)
	if !ok1 || !ok2 || yearly != alsoYearly {
		return Dates{}, fmt.Errorf("%q is not a date: write 2026-12-24, 2026-12-24..2027-01-03, or for every year 12-25", Clip(text))
	}
	if days := dayNumber(to) - dayNumber(from); !yearly && (days < 0 || days >= maxHolidayDays) {
		return Dates{}, fmt.Errorf("%q must end on the day on which it begins or later, and have at most %d days", Clip(text), maxHolidayDays)
	}
	return Dates{from, to}, nil
}

func parseDay(text string) (day time.Time, yearly, ok bool) {
	text = strings.TrimSpace(text)
	if yearly = len(text) == len("12-25"); yearly {
		text = fmt.Sprintf("%d-%s", everyYear, text)
	}
	day, err := time.Parse(time.DateOnly, text)
	return day, yearly, err == nil && (yearly || day.Year() > everyYear)
}

// String returns the dates in the form that [ParseDates] reads.
func (d Dates) String() string {
	layout := time.DateOnly
	if d.first.Year() == everyYear {
		layout = "01-02"
	}
	if d.first.Equal(d.last) {
		return d.first.Format(layout)
	}
	return d.first.Format(layout) + ".." + d.last.Format(layout)
}

// MarshalText implements [encoding.TextMarshaler].
func (d Dates) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON implements [json.Unmarshaler] by [ParseDates]. It refuses null.
func (d *Dates) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err = json.Unmarshal(data, &text); err == nil {
		*d, err = ParseDates(text)
	}
	return err
}

// JoinDates returns the dates of both lists, each once, in order.
func JoinDates(a, b []Dates) []Dates {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b Dates) int { return cmp.Or(a.first.Compare(b.first), a.last.Compare(b.last)) })
	return slices.Compact(all)
}

// Text returns the dates of the holiday as one text, with commas between them.
func (h Holiday) Text() string {
	texts := make([]string, len(h.Dates))
	for i, d := range h.Dates {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}

// Calendar is the list of holidays, ready to be asked for a day. The nil Calendar has
// none. It does not change, so it is safe for concurrent use.
type Calendar struct {
	spans  [][2]int                 // first and last day number, in order, none touching another
	yearly [maxHolidayDays + 1]bool // by the day of a leap year
}

// NewCalendar returns the calendar of a list.
func NewCalendar(holidays []Holiday) *Calendar {
	c := &Calendar{}
	for _, h := range holidays {
		for _, d := range h.Dates {
			if d.first.Year() == everyYear {
				c.markYearly(d.first.YearDay(), d.last.YearDay())
			} else {
				c.spans = append(c.spans, [2]int{dayNumber(d.first), dayNumber(d.last)})
			}
		}
	}
	slices.SortFunc(c.spans, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	merged := c.spans[:0]
	for _, s := range c.spans {
		if n := len(merged); n > 0 && s[0] <= merged[n-1][1]+1 {
			merged[n-1][1] = max(merged[n-1][1], s[1])
			continue
		}
		merged = append(merged, s)
	}
	c.spans = merged
	return c
}

// markYearly marks the days of a leap year, past its end if last is before first.
func (c *Calendar) markYearly(first, last int) {
	c.yearly[last] = true
	for day := first; day != last; day = day%maxHolidayDays + 1 {
		c.yearly[day] = true
	}
}

// Has reports whether a day is a holiday. Day 0 is the last one of the month before, as
// for [time.Date]. It does not allocate.
func (c *Calendar) Has(year int, month time.Month, day int) bool {
	if c == nil {
		return false
	}
	at := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	if c.yearly[time.Date(everyYear, at.Month(), at.Day(), 0, 0, 0, 0, time.UTC).YearDay()] {
		return true
	}
	n := dayNumber(at)
	i, found := slices.BinarySearchFunc(c.spans, n, func(s [2]int, n int) int { return cmp.Compare(s[0], n) })
	return found || i > 0 && n <= c.spans[i-1][1]
}

// dayNumber counts the days since 1970 to a midnight in UTC.
func dayNumber(t time.Time) int { return int(t.Unix() / (24 * 60 * 60)) }
