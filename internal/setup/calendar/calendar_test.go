package calendar_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/setup/calendar"
	"gatehouse/internal/site"
)

// event returns a calendar with one event of these lines.
func event(lines ...string) string {
	return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
}

// words returns holidays as one text.
func words(holidays []site.Holiday) string {
	var all []string
	for _, h := range holidays {
		all = append(all, h.Name+": "+h.Text())
	}
	return strings.Join(all, "; ")
}

func TestRead(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		event("SUMMARY:A", "DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261227"):                        "A: 2026-12-25..2026-12-26",
		event("SUMMARY:A", "DTSTART;VALUE=DATE:20261225"):                                                     "A: 2026-12-25",
		event("SUMMARY:A", "DTSTART:20261225", "DTEND:20261225"):                                              "A: 2026-12-25",
		event("DTSTART:20261225"):                                                                             "Holiday: 2026-12-25",
		event("SUMMARY:..", "DTSTART:20261225"):                                                               "Holiday: 2026-12-25",
		event("SUMMARY:A", "DTSTART;TZID=\"a:b;c\":20261224T140000", "DTEND;TZID=x:20261225T000000"):          "A: 2026-12-24",
		event("SUMMARY:A", "DTSTART:20261224T140000", "DTEND:20261225T000001"):                                "A: 2026-12-24..2026-12-25",
		event("SUMMARY:A", "DTSTART:20261224T230000Z", "DTEND:20261225T230000Z"):                              "A: 2026-12-25",
		event("SUMMARY;LANGUAGE=de:Tag\\, lang\\; \\\\\\n", " er Name", "DTSTART:2026", "\t1224"):             "Tag, lang; \\ er Name: 2026-12-24",
		event("summary:A", "dtstart:20261224", "BEGIN:VALARM", "SUMMARY:B", "DTSTART:x", "END:VALARM"):        "A: 2026-12-24",
		event("SUMMARY:A", "DTSTART:19701225", "RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;INTERVAL=1"):       "A: 12-25",
		event("SUMMARY:A", "DTSTART:20201231", "DTEND:20210102", "RRULE:freq=yearly;wkst=mo"):                 "A: 12-31..01-01",
		"\ufeff" + strings.ReplaceAll(event("SUMMARY:A", "DTSTART:20261224"), "\r", "") + "\n":                "A: 2026-12-24",
		event("SUMMARY:A", "DTSTART:20261224", "END:VEVENT", "BEGIN:VEVENT", "DTSTART:20271224", "SUMMARY:A"): "A: 2026-12-24, 2027-12-24",
		event("SUMMARY:A", "DTSTART:20261224", "END:VEVENT", "BEGIN:VEVENT", "STATUS:CANCELLED", "SUMMARY:B"): "A: 2026-12-24",
		event("SUMMARY:"+strings.Repeat("ü", 200), "DTSTART:20261224"):                                        strings.Repeat("ü", 100) + ": 2026-12-24",
	} {
		got, err := calendar.Read(text, berlin)
		if err != nil || words(got) != want {
			t.Errorf("%s\ngot %s, %v\nwant %s", text, words(got), err, want)
		}
	}
}

// What other programs may read as another set of days is refused, never taken in part.
func TestRead_ambiguous(t *testing.T) {
	const day = "DTSTART:20261224"
	for name, text := range map[string]string{
		"two starts":           event("SUMMARY:A", day, "DTSTART:20261225"),
		"the same start twice": event("SUMMARY:A", day, day),
		"two rules":            event(day, "RRULE:FREQ=YEARLY", "RRULE:FREQ=WEEKLY"),
		"two ends":             event(day, "DTEND:20261225", "DTEND;VALUE=DATE:20261227"),
		"two names":            event(day, "SUMMARY:A", "SUMMARY:B"),
		"two statuses":         event(day, "STATUS:CONFIRMED", "STATUS:CANCELLED"),
		"a date emptied":       event(day, "RDATE:20261226", "RDATE:"),
		"an event in an event": event(day, "BEGIN:VEVENT", "DTSTART:20261226", "END:VEVENT"),
		"an event in a task":   event(day, "END:VEVENT", "BEGIN:VTODO", "BEGIN:VEVENT", "DTSTART:20261226", "END:VEVENT", "END:VTODO", "BEGIN:VEVENT", "DTSTART:20261227"),
		"a calendar in one":    event(day, "END:VEVENT", "BEGIN:VCALENDAR", "BEGIN:VEVENT", "DTSTART:20261226", "END:VEVENT", "END:VCALENDAR", "BEGIN:VEVENT", "DTSTART:20261227"),
		"the end of another":   event(day, "END:VTODO", "BEGIN:VEVENT", "DTSTART:20261226"),
		"an end too many":      event(day, "END:VEVENT", "END:VEVENT", "BEGIN:VEVENT", "DTSTART:20261226"),
		"an occurrence":        event(day, "RRULE:FREQ=YEARLY", "END:VEVENT", "BEGIN:VEVENT", day, "STATUS:CANCELLED", "RECURRENCE-ID:20271224"),
	} {
		if got, err := calendar.Read(text, time.UTC); err == nil {
			t.Errorf("%s: read %s", name, words(got))
		}
	}
	if got, err := calendar.Read(strings.ReplaceAll(event(day), "VEVENT", "vevent"), time.UTC); err != nil || words(got) != "Holiday: 2026-12-24" {
		t.Errorf("lower case: %s, %v", words(got), err)
	}
}

func TestRead_refuses(t *testing.T) {
	const byHand = `: remove the event from the file, and add its dates with "gatehouse holiday add"`
	const none, foreign = "the calendar is cut off, or has no events from 2001 on", "this is not an iCalendar file of UTF-8 text"
	for text, want := range map[string]string{
		"":                                     none,
		"BEGIN:VCALENDAR\nEND:VCALENDAR":       none,
		event("SUMMARY:A", "DTSTART:19991231"): none,
		"hello":                                foreign,
		"BEGIN:VCARD":                          foreign,
		"<html>\nBEGIN:VCALENDAR":              foreign,
		"BEGIN:VCALENDAR\xff":                  foreign,
		event("SUMMARY:\xff"):                  foreign,
		"BEGIN:VCALENDAR\nEND:X\nEND:X":        foreign,
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261224":                                none,
		strings.TrimSuffix(event("DTSTART:20261224"), "END:VCALENDAR\r\n"):               none,
		strings.Repeat("BEGIN:VCALENDAR\n", 9000):                                        none,
		event("DTSTART:20260230"):                                                        `Holiday: "20260230" is not a date` + byHand,
		event("DTSTART;X=" + strings.Repeat("x", 1000)):                                  foreign,
		event("SUMMARY:A", "DTEND:20261224"):                                             `A: "" is not a date` + byHand,
		event("SUMMARY:A", "DTSTART:20261224", "DTEND:x"):                                `A: "x" is not a date` + byHand,
		event("SUMMARY:A", "DTSTART:20261224", "DURATION:P1D"):                           "A: its DURATION cannot be read" + byHand,
		event("SUMMARY:A", "DTSTART:20261224", "RDATE:20270101"):                         "A: its RDATE cannot be read" + byHand,
		event("SUMMARY:A", "DTSTART:20261224", "DTEND:20281224"):                         `A: "2026-12-24..2028-12-23" must end on the day on which it begins or later, and have at most 366 days` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"): `A: it repeats by a rule that cannot be read ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:FREQ=WEEKLY"):                      `A: it repeats by a rule that cannot be read ("FREQ=WEEKLY")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:WKST=MO"):                          `A: it repeats by a rule that cannot be read ("WKST=MO")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:FREQ=YEARLY;COUNT=5"):              `A: it repeats by a rule that cannot be read ("FREQ=YEARLY;COUNT=5")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "DTEND:20280101", "RRULE:FREQ=YEARLY"):    `A: it repeats by a rule that cannot be read ("FREQ=YEARLY")` + byHand,
		strings.Repeat("x", calendar.MaxSize+1):                                          "the calendar is too large: at most 1024 KiB; export only the holidays",
	} {
		if got, err := calendar.Read(text, time.UTC); err == nil || err.Error() != want {
			t.Errorf("%.200s\ngot %s, %v\nwant %s", text, words(got), err, want)
		}
	}
}

// The largest texts of each kind end soon, because the work is proportional to the size.
func TestRead_large(t *testing.T) {
	fill := func(text string) string { return strings.Repeat(text, (calendar.MaxSize-300)/len(text)) }
	for name, text := range map[string]string{
		"lines":       event("SUMMARY:A", "DTSTART:20261224\r\n"+fill("X:\r\n")),
		"empty lines": event("SUMMARY:A", "DTSTART:20261224\r\n"+fill("\n")),
		"one line":    event("DTSTART:20261224", "SUMMARY:A"+fill("x")),
		"folded":      event("DTSTART:20261224", "SUMMARY:A\r\n"+fill(" \r\n")),
		"quotes":      event("DTSTART:20261224", fill(`"`)+":"),
	} {
		if got, err := calendar.Read(text, time.UTC); err != nil || len(got) != 1 {
			t.Errorf("%s: %d, %v", name, len(got), err)
		}
	}
	for name, summary := range map[string]string{"names": "%d", "dates": "A"} {
		var many strings.Builder
		for i := range 5000 {
			many.WriteString("BEGIN:VEVENT\nSUMMARY:" + strings.ReplaceAll(summary, "%d", strconv.Itoa(i)) + "\nDTSTART:20261224\nEND:VEVENT\n")
		}
		if got, err := calendar.Read("BEGIN:VCALENDAR\n"+many.String()+"END:VCALENDAR\n", time.UTC); err == nil || !strings.Contains(err.Error(), "there are more than 500 holidays") {
			t.Errorf("%s: %d, %v", name, len(got), err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(event("SUMMARY:A", "DTSTART;VALUE=DATE:20261225", "DTEND:20261227", "RRULE:FREQ=YEARLY;COUNT=3"))
	f.Add(event("DTSTART:20261224T230000Z", "DURATION:P1W", "STATUS:CANCELLED", " \t"))
	f.Fuzz(func(t *testing.T, text string) {
		holidays, err := calendar.Read(text, time.UTC)
		for _, h := range holidays {
			if name, bad := site.ParseHolidayName(h.Name); bad != nil || name != h.Name || len(h.Dates) == 0 {
				t.Errorf("%q: %v", h.Name, h.Dates)
			}
			for _, d := range h.Dates {
				if again, bad := site.ParseDates(d.String()); bad != nil || again != d {
					t.Errorf("%s: %v", d, bad)
				}
			}
		}
		if (err == nil) == (len(holidays) == 0) {
			t.Errorf("%d holidays, %v", len(holidays), err)
		}
	})
}
