package site_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
)

func dates(t testing.TB, text string) site.Dates {
	t.Helper()
	d, err := site.ParseDates(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParseDates(t *testing.T) {
	for text, want := range map[string]string{
		"2026-12-24":               "2026-12-24",
		" 2026-12-24..2026-12-24 ": "2026-12-24",
		"2026-12-24 .. 2027-01-03": "2026-12-24..2027-01-03",
		"2027-01-01..2028-01-01":   "2027-01-01..2028-01-01",
		"12-25":                    "12-25",
		"02-29":                    "02-29",
		"12-24..01-06":             "12-24..01-06",
	} {
		if d, err := site.ParseDates(text); err != nil || d.String() != want {
			t.Errorf("%q was read as %q, %v", text, d, err)
		}
	}
	for _, text := range []string{
		"", "..", "2026-12-24..", "2026-02-29", "02-30", "12-25..2026-12-26", "2026-12-24..01-06", "2026-12-24..2026-12-23",
		"2027-01-01..2028-01-02", "2000-12-25", "0026-12-25", "2026-12-24...2026-12-25", "2026-12-24..12-24..12-25", "24.12.2026",
	} {
		if d, err := site.ParseDates(text); err == nil {
			t.Errorf("%q was read as %q", text, d)
		}
	}
}

func TestJoinDates(t *testing.T) {
	a := []site.Dates{dates(t, "2027-01-01"), dates(t, "2026-12-24..2026-12-26")}
	b := []site.Dates{dates(t, "2026-12-24"), dates(t, "12-25"), dates(t, "2027-01-01")}
	got := site.Holiday{Dates: site.JoinDates(a, b)}.Text()
	if want := "12-25, 2026-12-24, 2026-12-24..2026-12-26, 2027-01-01"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("ü", site.MaxStationName)
	for text, want := range map[string][2]bool{ // whether it may name a group, and a holiday
		"cleaners": {true, true}, "Büro EG & OG": {true, true}, long: {true, true}, long + "x": {false, false},
		"1042": {false, true}, "a@b": {false, true}, "": {false, false}, "..": {false, false}, "a\nb": {false, false}, "\xff": {false, false},
	} {
		_, group := site.ParseGroupName(text)
		_, holiday := site.ParseHolidayName(text)
		if (group == nil) != want[0] || (holiday == nil) != want[1] {
			t.Errorf("%q: %v; %v", text, group, holiday)
		}
	}
}

// TestGrant_Covers_oracle compares a grant with the rule as a person would apply it: the
// spans of each day of the calendar are written down, those of its holiday hours where the
// day is a holiday, and what runs past midnight with the day on which it starts. Each grant
// is asked at moments around every midnight, change of the clocks and end of a span.
func TestGrant_Covers_oracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			o := newOracle(random)
			grant := site.Grant{Terms: site.Terms{Hours: schedule(t, o.hours), Holidays: schedule(t, o.onHolidays)}}
			calendar := site.NewCalendar(o.holidays(t))
			end := time.Date(2020, 1, 1, 0, 0, 0, 0, zone)
			for at := time.Date(2010, 1, 1, 0, 0, 0, 0, zone); at.Before(end); at = at.Add(time.Duration(1+random.IntN(180)) * time.Minute) {
				if got, want := grant.Covers(at, zone, calendar), o.covers(at); got != want {
					t.Fatalf("hours %q, on holidays %q: %v at %s; holidays %v", o.hours, o.onHolidays, got, at, o.dates)
				}
			}
		}
	}
}

func schedule(t testing.TB, spans []oracleSpan) site.Schedule {
	t.Helper()
	var parts []string
	for _, s := range spans {
		parts = append(parts, s.text)
	}
	hours, err := site.ParseSchedule(strings.Join(parts, ", "))
	if err != nil {
		t.Fatal(err)
	}
	return hours
}

// oracle applies hours and holidays slowly, by what stands on paper.
type oracle struct {
	hours, onHolidays []oracleSpan // no hours: any; no onHolidays: as hours
	dates             []string
	days              map[string]bool // holidays, "2026-12-24"
}

// oracleSpan is a span as it is written and as lists.
type oracleSpan struct {
	text string
	days []string // "Mon"
	from string   // "08:00"
	to   string
}

func newOracle(random *rand.Rand) *oracle {
	o := &oracle{days: map[string]bool{}}
	for range random.IntN(4) {
		o.hours = append(o.hours, randomSpan(random))
	}
	for range random.IntN(3) {
		o.onHolidays = append(o.onHolidays, randomSpan(random))
	}
	if random.IntN(3) == 0 {
		o.onHolidays = []oracleSpan{{text: "none"}}
	}
	for range 40 {
		first := time.Date(2010, 1, 1+random.IntN(3652), 0, 0, 0, 0, time.UTC)
		last := first.AddDate(0, 0, random.IntN(4)*random.IntN(4))
		o.dates = append(o.dates, first.Format(time.DateOnly)+".."+last.Format(time.DateOnly))
		for d := first; !d.After(last); d = d.AddDate(0, 0, 1) {
			o.days[d.Format(time.DateOnly)] = true
		}
	}
	for _, yearly := range [][]string{{"02-29"}, {"12-31..01-01", "12-31", "01-01"}, {"03-01"}} {
		o.dates = append(o.dates, yearly[0])
		for year := 2009; year <= 2020; year++ {
			for _, day := range yearly {
				o.days[fmt.Sprintf("%d-%s", year, day)] = true // a day that is not there is never asked for
			}
		}
	}
	return o
}

func randomSpan(random *rand.Rand) (s oracleSpan) {
	names := []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	first, n := random.IntN(7), 1+random.IntN(7)
	for i := range n {
		s.days = append(s.days, names[(first+i)%7])
	}
	ends := []string{"00:00", "00:30", "01:59", "02:00", "02:30", "03:00", "06:00", "12:00", "22:00", "23:30", "24:00"}
	for s.from == s.to || s.from == "24:00" {
		s.from, s.to = ends[random.IntN(len(ends))], ends[random.IntN(len(ends))]
	}
	s.text = fmt.Sprintf("%s-%s %s-%s", s.days[0], s.days[n-1], s.from, s.to)
	return s
}

func (o *oracle) holidays(t *testing.T) (all []site.Holiday) {
	t.Helper()
	for i, text := range o.dates {
		all = append(all, site.Holiday{Name: fmt.Sprint(i), Dates: []site.Dates{dates(t, text)}})
	}
	return all
}

// covers looks at the clock on the wall.
func (o *oracle) covers(at time.Time) bool {
	clock := at.Format("15:04")
	today := time.Date(at.Year(), at.Month(), at.Day(), 12, 0, 0, 0, time.UTC)
	yesterday := today.AddDate(0, 0, -1)
	for _, s := range o.on(today) {
		if s.begins(today) && clock >= s.from && (clock < s.to || s.to < s.from) {
			return true
		}
	}
	for _, s := range o.on(yesterday) {
		if s.begins(yesterday) && s.to < s.from && clock < s.to {
			return true
		}
	}
	return false
}

func (s oracleSpan) begins(day time.Time) bool {
	return strings.Contains(strings.Join(s.days, " "), day.Format("Mon"))
}

// on returns the spans that belong to a day.
func (o *oracle) on(day time.Time) []oracleSpan {
	spans := o.hours
	if o.days[day.Format(time.DateOnly)] && len(o.onHolidays) > 0 {
		spans = o.onHolidays
	}
	if len(spans) == 0 {
		return []oracleSpan{{days: []string{day.Format("Mon")}, from: "00:00", to: "24:00"}}
	}
	return spans
}

func FuzzParseDates(f *testing.F) {
	f.Add("2026-12-24..2027-01-03")
	f.Add("12-24..01-06")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := site.ParseDates(text)
		if err != nil {
			return
		}
		if again, err := site.ParseDates(d.String()); err != nil || again != d {
			t.Errorf("%q became %q, then %q, %v", text, d, again, err)
		}
		site.NewCalendar([]site.Holiday{{Dates: []site.Dates{d}}})
	})
}

func TestGrant_Covers_allocations(t *testing.T) {
	calendar := site.NewCalendar([]site.Holiday{{Dates: []site.Dates{dates(t, "2026-12-24..2026-12-26"), dates(t, "01-01")}}})
	hours, _ := site.ParseSchedule("Mon-Fri 08:00-18:00, 22:00-06:00")
	none, _ := site.ParseSchedule("none")
	grant := site.Grant{Terms: site.Terms{Hours: hours, Holidays: none}}
	at := time.Date(2026, 12, 27, 3, 0, 0, 0, time.UTC)
	if n := testing.AllocsPerRun(100, func() { grant.Covers(at, time.UTC, calendar) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
