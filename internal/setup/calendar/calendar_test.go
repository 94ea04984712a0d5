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
		event("SUMMARY:A", "DTSTART:20261224", "DURATION:P1W"):                                                "A: 2026-12-24..2026-12-30",
		event("SUMMARY:A", "DTSTART:20261224", "DURATION:P2D"):                                                "A: 2026-12-24..2026-12-25",
		event("SUMMARY;LANGUAGE=de:Tag\\, lang\\; \\\\\\n", " er Name", "DTSTART:2026", "\t1224"):             "Tag, lang; \\ er Name: 2026-12-24",
		event("summary:A", "dtstart:20261224", "BEGIN:VALARM", "SUMMARY:B", "DTSTART:x", "END:VALARM"):        "A: 2026-12-24",
		event("SUMMARY:A", "DTSTART:19701225", "RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;INTERVAL=1"):       "A: 12-25",
		event("SUMMARY:A", "DTSTART:20201231", "DTEND:20210102", "RRULE:freq=yearly;wkst=mo"):                 "A: 12-31..01-01",
		event("SUMMARY:A", "DTSTART:20240229", "RRULE:FREQ=YEARLY;COUNT=5"):                                   "A: 2024-02-29, 2028-02-29",
		event("SUMMARY:A", "DTSTART:20240501", "RRULE:FREQ=YEARLY;UNTIL=20260501T000000Z"):                    "A: 2024-05-01, 2025-05-01, 2026-05-01",
		event("SUMMARY:A", "DTSTART:19990501", "RRULE:FREQ=YEARLY;COUNT=3"):                                   "A: 2001-05-01",
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

func TestRead_refuses(t *testing.T) {
	const byHand = `: remove it from the file, and add its dates with "gatehouse holiday add"`
	for text, want := range map[string]string{
		"":                                     "the calendar has no events from 2001 on",
		"BEGIN:VCALENDAR\nEND:VCALENDAR":       "the calendar has no events from 2001 on",
		event("SUMMARY:A", "DTSTART:19991231"): "the calendar has no events from 2001 on",
		"hello":                                "line 1: this is not an iCalendar file",
		"BEGIN:VCARD":                          "line 1: this is not an iCalendar file",
		"<html>\nBEGIN:VCALENDAR":              "line 1: this is not an iCalendar file",
		"BEGIN:VCALENDAR\xff":                  "the calendar is not UTF-8 text",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261224":                                `the calendar is cut off: its "VEVENT" does not end`,
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR":                                   `line 3: the end of "VCALENDAR", not of "VEVENT"`,
		"BEGIN:VCALENDAR" + strings.Repeat("\nBEGIN:X", 9):                               "line 9: components are nested too deeply",
		event("DTSTART:20260230"):                                                        `line 4: "20260230" is not a date`,
		event("DTSTART;X=" + strings.Repeat("x", 1000)):                                  "line 4: this is not an iCalendar file",
		event("SUMMARY:A", "DTEND:20261224"):                                             "line 6: A has no DTSTART",
		event("SUMMARY:A", "DTSTART:20261224", "DURATION:PT5H"):                          `line 6: "PT5H" is not a duration in days` + byHand,
		event("SUMMARY:A", "DTSTART:20261224", "RDATE:20270101"):                         "line 6: an event repeats in a way that cannot be read (RDATE)" + byHand,
		event("SUMMARY:A", "DTSTART:20261224", "DTEND:20281224"):                         `line 7: A: "2026-12-24..2028-12-23" must end on the day on which it begins or later, and have at most 366 days` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"): `line 7: A: it repeats by a rule that cannot be read ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:FREQ=WEEKLY"):                      `line 7: A: it repeats by a rule that cannot be read ("FREQ=WEEKLY")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "RRULE:FREQ=YEARLY;COUNT=1000000000"):     `line 7: A: it repeats by a rule that cannot be read ("FREQ=YEARLY;COUNT=1000000000")` + byHand,
		event("SUMMARY:A", "DTSTART:20261126", "DTEND:20280101", "RRULE:FREQ=YEARLY"):    "line 8: A: it lasts a year or more" + byHand,
		strings.Repeat("x", calendar.MaxSize+1):                                          calendar.ErrTooLarge.Error(),
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
			many.WriteString("BEGIN:VEVENT\nSUMMARY:" + strings.ReplaceAll(summary, "%d", strconv.Itoa(i)) + "\nDTSTART:20261224\nRRULE:FREQ=YEARLY;COUNT=100\nEND:VEVENT\n")
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
