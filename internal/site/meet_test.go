package site_test

import (
	"testing"
	"time"

	"gatehouse/internal/site"
)

// A narrowed grant holds when both terms do, and at no other moment. Terms are within others
// only where a grant of those holds as well.
func TestTerms_Meet(t *testing.T) {
	var calendar []site.Dates
	for _, text := range []string{"2026-11-25", "2026-11-28..2026-11-29"} {
		days, err := site.ParseDates(text)
		if err != nil {
			t.Fatal(err)
		}
		calendar = append(calendar, days)
	}
	holidays, begin := site.NewCalendar([]site.Holiday{{Name: "some", Dates: calendar}}), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var all []site.Terms
	texts := []string{"", "none", "00:00-24:00", "Mon-Fri 08:00-18:00", "Mon-Fri 09:00-18:00", "Wed 10:00-12:00, Sat-Mon 14:00-20:00", "Fri-Tue 22:00-06:00", "20:00-02:00"}
	for i, hours := range texts {
		for _, onHolidays := range texts {
			h, err := site.ParseSchedule(hours)
			on, failed := site.ParseSchedule(onHolidays)
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			terms := site.Terms{Hours: h, Holidays: on}
			if i%3 == 0 {
				terms.From = site.At(begin.Add(30 * time.Hour))
			}
			if i%2 == 0 {
				terms.Until = site.At(begin.Add(150 * time.Hour))
			}
			all = append(all, terms)
		}
	}
	for _, a := range all {
		for _, b := range all {
			met, within := a.Meet(b), a.Within(b)
			if !met.Within(a) || !met.Within(b) || within && !met.Within(a) || within != a.Within(met) {
				t.Errorf("%+v and %+v meet in %+v; within: %v", a, b, met, within)
			}
			for at := begin; at.Before(begin.AddDate(0, 0, 7)); at = at.Add(30 * time.Minute) {
				inA, inB := a.Covers(at, time.UTC, holidays), b.Covers(at, time.UTC, holidays)
				if got := met.Covers(at, time.UTC, holidays); got != (inA && inB) && (got || !overnight(a, b)) || within && inA && !inB {
					t.Fatalf("%+v and %+v meet in %+v: %v at %s; within: %v", a, b, met, got, at, within)
				}
			}
			if again, err := site.ParseSchedule(met.Hours.String()); err != nil || again.String() != met.Hours.String() {
				t.Errorf("%q: %v", met.Hours, err)
			}
		}
	}
}

// overnight reports whether terms have hours past midnight. These belong to the day before, so
// they do not meet those of their own day.
func overnight(all ...site.Terms) bool {
	for _, terms := range all {
		for _, hours := range []site.Schedule{terms.Hours, terms.Holidays} {
			if text := hours.String(); text == "Fri-Tue 22:00-06:00" || text == "Mon-Sun 20:00-02:00" {
				return true
			}
		}
	}
	return false
}

// Hours that would meet in more spans than a schedule may have meet in none.
func TestSchedule_Meet_bounded(t *testing.T) {
	days := "Mon 01:00-02:00, Wed 01:00-02:00, Fri 01:00-02:00, Sun 01:00-02:00, Mon 03:00-05:00, Wed 03:00-05:00, Fri 03:00-05:00, Sun 03:00-05:00"
	a, err := site.ParseSchedule(days + ", Mon 07:00-09:00, Wed 07:00-09:00, Fri 07:00-09:00, Sun 07:00-09:00, Tue 01:00-02:00")
	b, failed := site.ParseSchedule("00:30-01:30, 01:40-04:00, 04:20-08:00, 08:10-10:00")
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if met := a.Meet(b); met.String() != "none" {
		t.Errorf("%s", met)
	}
}
