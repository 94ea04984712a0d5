// Package calendar reads holidays from an iCalendar text (RFC 5545), as calendar programs
// and public authorities publish them in .ics files. It reads the days, the name and
// simple yearly repetition of events, and refuses a text whose holidays it would get wrong
// or only in part: a missing one would leave a door open.
//
// The text comes from outside. It is bounded by [MaxSize], what comes of it by the bounds of
// the list of holidays.
package calendar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatehouse/internal/site"
)

// MaxSize is the largest text, in bytes: room for some thousand events.
const MaxSize = 1 << 20

const (
	maxDepth   = 8 // components within each other
	maxRepeats = site.MaxHolidayDates
)

// ErrTooLarge means that a text has more than [MaxSize] bytes.
var ErrTooLarge = fmt.Errorf("the calendar is too large: at most %d KiB; export only the holidays", MaxSize>>10)

// Read returns the holidays of a text, by name. Times in UTC count as those of zone, others
// as they are written. Its error is a sentence for people.
func Read(text string, zone *time.Location) ([]site.Holiday, error) {
	if len(text) > MaxSize {
		return nil, ErrTooLarge
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the calendar is not UTF-8 text")
	}
	r := &reader{zone: zone, dates: map[string][]site.Dates{}}
	for line, content := range contentLines(strings.TrimPrefix(text, "\ufeff")) {
		if err := r.property(line, content); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	switch {
	case len(r.inside) > 0:
		return nil, fmt.Errorf("the calendar is cut off: its %s does not end", clip(r.inside[len(r.inside)-1]))
	case len(r.dates) == 0:
		return nil, errors.New("the calendar has no events from 2001 on")
	}
	holidays := make([]site.Holiday, 0, len(r.dates))
	for _, name := range slices.Sorted(maps.Keys(r.dates)) {
		holidays = append(holidays, site.Holiday{Name: name, Dates: site.JoinDates(r.dates[name], nil)})
	}
	return holidays, nil
}

// contentLines yields the lines of a text by their numbers. A line that begins with a
// space or a tab continues the one before.
func contentLines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		var content strings.Builder
		number, first := 0, 1
		for line := range strings.Lines(text) {
			number++
			line = strings.TrimRight(line, "\r\n")
			if line != "" && (line[0] == ' ' || line[0] == '\t') {
				content.WriteString(line[1:])
				continue
			}
			if content.Len() > 0 && !yield(first, content.String()) {
				return
			}
			content.Reset()
			content.WriteString(line)
			first = number
		}
		if content.Len() > 0 {
			yield(first, content.String())
		}
	}
}

// reader reads one text.
type reader struct {
	zone   *time.Location
	inside []string // the components around the line
	event  event
	dates  map[string][]site.Dates // by the name of the holiday
}

// event is what a VEVENT says.
type event struct {
	start, end time.Time // midnight or wall clock, as UTC; end is not included
	days       int       // of DURATION
	summary    string
	rule       string // RRULE
	cancelled  bool
}

// property reads one line.
func (r *reader) property(line int, content string) error {
	name, value, ok := split(content)
	if !ok || len(r.inside) == 0 && (name != "BEGIN" || value != "VCALENDAR") {
		return errors.New("this is not an iCalendar file")
	}
	component := ""
	if len(r.inside) > 0 {
		component = r.inside[len(r.inside)-1]
	}
	switch {
	case name == "BEGIN":
		if len(r.inside) == maxDepth {
			return errors.New("components are nested too deeply")
		}
		r.inside = append(r.inside, value)
		if value == "VEVENT" {
			r.event = event{}
		}
	case name == "END" && value != component:
		return fmt.Errorf("the end of %s, not of %s", clip(value), clip(component))
	case name == "END":
		r.inside = r.inside[:len(r.inside)-1]
		if component == "VEVENT" {
			return r.add()
		}
	case component == "VEVENT":
		return r.fact(name, value)
	}
	return nil
}

// split returns the name of a property in upper case, and its value.
func split(content string) (name, value string, ok bool) {
	quoted := false
	end := strings.IndexFunc(content, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ':' && !quoted
	})
	if end < 0 {
		return "", "", false
	}
	name, _, _ = strings.Cut(content[:end], ";")
	return strings.ToUpper(name), strings.TrimSpace(content[end+1:]), true
}

// fact reads a property of an event.
func (r *reader) fact(name, value string) (err error) {
	switch e := &r.event; name {
	case "DTSTART":
		e.start, err = r.moment(value)
	case "DTEND":
		e.end, err = r.moment(value)
	case "DURATION":
		e.days, err = days(value)
	case "SUMMARY":
		e.summary = nameOf(value)
	case "RRULE":
		e.rule = strings.ToUpper(value)
	case "STATUS":
		e.cancelled = strings.EqualFold(value, "CANCELLED")
	case "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID":
		err = fmt.Errorf("an event repeats in a way that cannot be read (%s): %s", name, byHand)
	}
	return err
}

// byHand is what to do about an event that cannot be read.
const byHand = `remove it from the file, and add its dates with "gatehouse holiday add"`

// moment reads a date or a date and time, as wall clock.
func (r *reader) moment(value string) (time.Time, error) {
	if t, err := time.Parse("20060102", value); err == nil {
		return t, nil
	}
	if t, err := time.Parse("20060102T150405", value); err == nil {
		return t, nil
	}
	t, err := time.Parse("20060102T150405Z", value)
	if err != nil {
		return t, fmt.Errorf("%s is not a date", clip(value))
	}
	t = t.In(r.zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC), nil
}

// days reads a duration in days or weeks: "P1D", "P2W".
func days(value string) (int, error) {
	number, isDays := strings.CutSuffix(value, "D")
	number, isWeeks := strings.CutSuffix(number, "W")
	number, isPeriod := strings.CutPrefix(number, "P")
	n, err := strconv.ParseUint(number, 10, 9)
	if err != nil || isDays == isWeeks || !isPeriod || n == 0 {
		return 0, fmt.Errorf("%s is not a duration in days: %s", clip(value), byHand)
	}
	if isWeeks {
		n *= 7
	}
	return int(n), nil //nolint:gosec // 9 bits
}

// nameOf returns the text of a property as the name of a holiday.
func nameOf(value string) string {
	value = strings.NewReplacer(`\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";", `\\`, `\`).Replace(value)
	name := []rune(strings.Join(strings.FieldsFunc(value, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " "))
	return strings.TrimSpace(string(name[:min(len(name), site.MaxStationName)]))
}

// add adds the dates of the event that ends here.
func (r *reader) add() error {
	e := &r.event
	name, err := site.ParseHolidayName(e.summary)
	if err != nil {
		name = "Holiday"
	}
	if e.cancelled {
		return nil
	}
	if e.start.IsZero() {
		return fmt.Errorf("%s has no DTSTART", name)
	}
	last := e.start
	switch {
	case e.days > 0:
		last = e.start.AddDate(0, 0, e.days-1)
	case e.end.After(e.start): // what ends at midnight does not reach into that day
		last = e.end.Add(-time.Nanosecond)
	}
	dates, err := e.repeated(e.start, last)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(dates) > 0 {
		r.dates[name] = append(r.dates[name], dates...)
	}
	if len(r.dates) > site.MaxHolidays || len(r.dates[name]) > site.MaxHolidayDates {
		return fmt.Errorf("there are more than %d holidays, or more than %d dates of one: export only the holidays", site.MaxHolidays, site.MaxHolidayDates)
	}
	return nil
}

// repeated returns the days from first to last, repeated by the rule of the event.
func (e *event) repeated(first, last time.Time) (all []site.Dates, err error) {
	rule, err := parseRule(e.rule, first)
	if err != nil {
		return nil, err
	}
	layout := time.DateOnly
	if rule.forever {
		layout = "01-02"
		if last.Sub(first) >= 365*24*time.Hour {
			return nil, errors.New("it lasts a year or more: " + byHand)
		}
	}
	for year := range rule.count {
		from, to := first.AddDate(year, 0, 0), last.AddDate(year, 0, 0)
		if !rule.until.IsZero() && from.After(rule.until) {
			break
		}
		if to.Year() <= 2000 && !rule.forever || from.Day() != first.Day() {
			continue // long ago, or a 29 February that is not there
		}
		d, err := site.ParseDates(from.Format(layout) + ".." + to.Format(layout))
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, byHand)
		}
		all = append(all, d)
	}
	return all, nil
}

// rule is how an event repeats, year by year.
type rule struct {
	count   int       // how many years there are
	until   time.Time // the last day on which one may begin; zero: none
	forever bool      // every year, with a count of 1
}

// parseRule reads a rule that names nothing but every year, on the day of the first; "" is
// no repetition.
func parseRule(text string, first time.Time) (r rule, err error) {
	r.count = 1
	if text == "" {
		return r, nil
	}
	r.forever = true
	yearly, fits := false, true
	for part := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "FREQ":
			yearly = value == "YEARLY"
		case "INTERVAL":
			fits = fits && value == "1"
		case "BYMONTH":
			fits = fits && value == strconv.Itoa(int(first.Month()))
		case "BYMONTHDAY":
			fits = fits && value == strconv.Itoa(first.Day())
		case "WKST":
		case "COUNT":
			r.forever = false
			r.count, err = strconv.Atoi(value)
			fits = fits && err == nil && r.count >= 1 && r.count <= maxRepeats
		case "UNTIL":
			r.forever, r.count = false, maxRepeats
			r.until, err = time.Parse("20060102", value[:min(len(value), 8)])
			fits = fits && err == nil && r.until.Year() < first.Year()+maxRepeats
		default:
			fits = false
		}
	}
	if !yearly || !fits {
		return r, fmt.Errorf("it repeats by a rule that cannot be read (%s): %s", clip(text), byHand)
	}
	return r, nil
}

// clip shortens a text from outside, without what cannot be printed.
func clip(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}
