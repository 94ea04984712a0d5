package site_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
)

// reopens is the rule of Terms.Reopens, minute by minute.
func reopens(t site.Terms, after time.Time, zone *time.Location, holidays *site.Calendar, days int) time.Time {
	for at := after.Truncate(time.Minute).Add(time.Minute); at.Before(after.AddDate(0, 0, days)); at = at.Add(time.Minute) {
		if t.Covers(at, zone, holidays) {
			return at
		}
	}
	return time.Time{}
}

// The next opening is that which a look at every minute finds, also where the clock of the
// zone is put forward or back, over holidays, and for terms that begin or end.
func TestTerms_Reopens(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for a test
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	moments := []time.Time{ // each lies before a change of an offset, or in a plain week
		time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC),
		time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC), time.Date(2026, 9, 4, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 23, 9, 30, 0, 0, time.UTC),
	}
	for n := range 400 {
		zone, err := time.LoadLocation(pick("Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "UTC", "Pacific/Apia"))
		if err != nil {
			t.Fatal(err)
		}
		parse := func(text string) site.Schedule {
			s, err := site.ParseSchedule(text)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		clock := func() string {
			return pick("00", "01", "02", "03", "09", "22", "23") + pick(":00", ":15", ":30", ":45")
		}
		hours := func() string {
			spans := make([]string, 1+random.IntN(3))
			for i := range spans {
				spans[i] = pick("Mon-Fri", "Sat", "Sun", "Sat-Sun", "Wed") + " " + clock() + "-" + pick("08:10", "23:50", "03:05", "24:00")
			}
			return strings.Join(spans, ", ")
		}
		terms := site.Terms{Hours: parse(pick(hours(), hours(), hours(), "none", "")), Holidays: parse(pick("", "", "none", hours()))}
		after := moments[random.IntN(len(moments))].Add(time.Duration(random.IntN(48*60)) * time.Minute)
		if random.IntN(4) == 0 {
			terms.From = site.At(after.Add(time.Duration(random.IntN(72*60)) * time.Minute))
		}
		if random.IntN(4) == 0 {
			terms.Until = site.At(after.Add(time.Duration(random.IntN(96*60)) * time.Minute))
		}
		dates, err := site.ParseDates(pick("12-24..12-26", "2026-03-28..2026-03-30", "2026-10-04"))
		if err != nil {
			t.Fatal(err)
		}
		holidays := site.NewCalendar([]site.Holiday{{Name: "x", Dates: []site.Dates{dates}}})
		if terms.Covers(after, zone, holidays) {
			continue
		}
		want := reopens(terms, after, zone, holidays, 12)
		if got, ok := terms.Reopens(after, zone, holidays); ok && want.IsZero() && got.After(after.AddDate(0, 0, 11)) {
			continue // further ahead than a look at every minute goes
		} else if ok == want.IsZero() || !got.Equal(want) {
			t.Errorf("%d: %s in %s after %s: got %s, want %s", n, terms.Text(time.Time.String), zone, after, got, want)
		}
	}
}

// Terms that never hold again end the search.
func TestTerms_Reopens_never(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	never, _ := site.ParseSchedule("none")
	yearly, _ := site.ParseDates("01-01..12-31")
	always := site.NewCalendar([]site.Holiday{{Name: "x", Dates: []site.Dates{yearly}}})
	monday, _ := site.ParseSchedule("Mon 08:00-09:00")
	for name, terms := range map[string]site.Terms{
		"none":     {Hours: never},
		"ended":    {Hours: monday, Until: site.At(at)},
		"holidays": {Hours: monday, Holidays: never},
		"too late": {Hours: monday, Until: site.At(at.Add(time.Hour))},
	} {
		if got, ok := terms.Reopens(at, time.UTC, always); ok {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
