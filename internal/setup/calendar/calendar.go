// Package calendar reads holidays from an iCalendar text (RFC 5545), as calendar programs
// and public authorities publish them in .ics files. It reads the days and the names of
// events, and whether they are the same every year. It refuses a text whose holidays it
// would get wrong or only in part: a missing one would leave a door open.
//
// The text comes from outside. It is bounded by [MaxSize], what comes of it by the bounds of
// the list of holidays.
package calendar

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
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

// Read returns the holidays of a text, by name. Times in UTC count as those of zone, others
// as they are written. Its error is a sentence for people.
func Read(text string, zone *time.Location) ([]site.Holiday, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("the calendar is too large: at most %d KiB; export only the holidays", MaxSize>>10)
	}
	unfolding := strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "")
	r := &reader{zone: zone, dates: map[string][]site.Dates{}}
	for line := range strings.SplitSeq(unfolding.Replace(strings.TrimPrefix(text, "\ufeff")), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := r.property(line); err != nil {
			return nil, err
		}
	}
	if len(r.open) != 0 || len(r.dates) == 0 {
		return nil, errors.New("the calendar is cut off, or has no events from 2001 on")
	}
	holidays := make([]site.Holiday, 0, len(r.dates))
	for _, name := range slices.Sorted(maps.Keys(r.dates)) {
		holidays = append(holidays, site.Holiday{Name: name, Dates: site.JoinDates(r.dates[name], nil)})
	}
	return holidays, nil
}

// reader reads one text.
type reader struct {
	zone  *time.Location
	open  []string                // the components that are open, the outermost first
	event map[string]string       // the properties of the open event; nil: it is none
	dates map[string][]site.Dates // by the name of the holiday
}

var errForeign = errors.New("this is not an iCalendar file of UTF-8 text")

// propertyLine is the name of a property with its parameters, which may be in quotes, and
// its value.
var propertyLine = regexp.MustCompile(`^((?:[^":]|"[^"]*")*):(.*)$`)

// property reads one line.
func (r *reader) property(line string) error {
	parts := propertyLine.FindStringSubmatch(line)
	if parts == nil || !utf8.ValidString(line) {
		return errForeign
	}
	name, _, _ := strings.Cut(strings.ToUpper(parts[1]), ";")
	value := strings.TrimSpace(parts[2])
	component := strings.ToUpper(value)
	switch {
	case len(r.open) == 0 && (name != "BEGIN" || component != "VCALENDAR"):
		return errForeign
	case name == "BEGIN":
		return r.begin(component)
	case name == "END":
		return r.end(component)
	case len(r.open) == 2 && r.event != nil: // deeper are alarms
		if _, stated := r.event[name]; stated && decides(name) {
			return fmt.Errorf("%s: it states %s more than once: %w", nameOf(r.event["SUMMARY"]), name, errByHand)
		}
		r.event[name] = value
	}
	return nil
}

// decides reports whether a property decides about the days or the name of an event. None
// may be repeated (RFC 5545, 3.6.1): it is not known which one counts.
func decides(property string) bool {
	switch property {
	case "SUMMARY", "STATUS", "DTSTART", "DTEND", "DURATION", "RRULE", "EXRULE", "RDATE", "EXDATE", "RECURRENCE-ID":
		return true
	}
	return false
}

var errByHand = errors.New("remove the event from the file, and add its dates with \"gatehouse holiday add\"")

// errNested refuses what other programs may take for an event.
var errNested = errors.New("the file has an event within another component: export the calendar again")

// begin opens a component.
func (r *reader) begin(component string) error {
	if component == "VEVENT" {
		if len(r.open) != 1 {
			return errNested
		}
		r.event = map[string]string{}
	}
	r.open = append(r.open, component)
	return nil
}

// end closes the innermost component, which has to be that one.
func (r *reader) end(component string) error {
	last := len(r.open) - 1
	if r.open[last] != component {
		return errForeign
	}
	r.open = r.open[:last]
	if component != "VEVENT" {
		return nil
	}
	event := r.event
	r.event = nil
	return r.add(event)
}

// add adds the days of an event.
func (r *reader) add(event map[string]string) error {
	name := nameOf(event["SUMMARY"])
	if strings.EqualFold(event["STATUS"], "CANCELLED") && event["RECURRENCE-ID"] == "" { // one occurrence of an event is an exception to its rule
		return nil
	}
	dates, err := r.datesOf(event)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, err, errByHand)
	}
	if dates != (site.Dates{}) {
		r.dates[name] = append(r.dates[name], dates)
	}
	if len(r.dates) > site.MaxHolidays || len(r.dates[name]) > site.MaxHolidayDates {
		return fmt.Errorf("there are more than %d holidays, or more than %d dates of one: export only the holidays", site.MaxHolidays, site.MaxHolidayDates)
	}
	return nil
}

// nameOf returns the text of a property as the name of a holiday.
func nameOf(value string) string {
	value = strings.NewReplacer(`\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";", `\\`, `\`).Replace(value)
	text := []rune(strings.Join(strings.FieldsFunc(value, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " "))
	name, err := site.ParseHolidayName(string(text[:min(len(text), site.MaxStationName)]))
	if err != nil {
		return "Holiday"
	}
	return name
}

// datesOf returns the days that an event touches; none if they are long ago.
func (r *reader) datesOf(event map[string]string) (none site.Dates, err error) {
	for _, name := range []string{"DURATION", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"} {
		if event[name] != "" {
			return none, errors.New("its " + name + " cannot be read")
		}
	}
	first, err := r.moment(event["DTSTART"])
	if err != nil {
		return none, err
	}
	last := first
	if event["DTEND"] != "" {
		end, err := r.moment(event["DTEND"])
		if err != nil {
			return none, err
		}
		if end.After(first) { // what ends at midnight does not reach into that day
			last = end.Add(-time.Nanosecond)
		}
	}
	layout := time.DateOnly
	switch rule := event["RRULE"]; {
	case rule != "" && (!isYearly(rule, first) || last.Sub(first) >= 365*24*time.Hour):
		return none, fmt.Errorf("it repeats by a rule that cannot be read (%.60q)", rule)
	case rule != "":
		layout = "01-02"
	case first.Year() <= 2000:
		return none, nil
	}
	return site.ParseDates(first.Format(layout) + ".." + last.Format(layout)) //nolint:wrapcheck // it names the dates
}

// moment reads a date, or a date and time, as wall clock.
func (r *reader) moment(value string) (t time.Time, err error) {
	const wallClock = "20060102T150405"
	if t, err = time.Parse(wallClock+"Z", value); err == nil {
		value = t.In(r.zone).Format(wallClock)
	}
	if t, err = time.Parse(wallClock, value); err != nil {
		t, err = time.Parse("20060102", value)
	}
	if err != nil {
		return t, fmt.Errorf("%.60q is not a date", value)
	}
	return t, nil
}

// isYearly reports whether a rule means nothing but every year, on the day of the first.
func isYearly(rule string, first time.Time) (yearly bool) {
	for part := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		switch part {
		case "FREQ=YEARLY":
			yearly = true
		case "INTERVAL=1", "BYMONTH=" + strconv.Itoa(int(first.Month())), "BYMONTHDAY=" + strconv.Itoa(first.Day()), "WKST=MO", "WKST=SU":
		default:
			return false
		}
	}
	return yearly
}
