package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// textRecords writes records for people. Of an unlock it writes the outcome only, unless
// all are asked for.
type textRecords struct {
	app    *app
	out    *lines
	all    bool
	names  map[site.StationID]string
	latest map[door]opening // the latest unlock of each lock
	any    bool             // a record was read
}

// door is one lock of one station.
type door struct {
	station site.StationID
	lock    string
}

// opening is what the records of an unlock have stated so far.
type opening struct {
	command  site.CommandID
	outcome  site.Outcome
	at       time.Time // of the latest record
	reported bool      // the lock has reported a change since
}

// openingTime is how long after its latest record an unlock explains that a lock is open.
const openingTime = 10 * time.Second

func newTextRecords(a *app, out io.Writer, all bool, names map[site.StationID]string) *textRecords {
	return &textRecords{app: a, out: &lines{w: out}, all: all, names: names, latest: map[door]opening{}}
}

// Record implements [recordWriter].
func (t *textRecords) Record(r site.Record) error {
	if !t.any {
		t.any = true
		t.row("SEQ", t.timeHeading(), "KIND", "WHAT")
	}
	if t.all || !t.hidden(r) {
		when := r.Time.In(t.app.zone).Format(time.DateTime)
		if !r.ClockTrusted {
			when += "?"
		}
		t.row(strconv.FormatUint(r.Seq, 10), when, string(r.Kind), factsText(r, t.names))
	}
	return t.out.err
}

// hidden reports whether r belongs to an unlock that has a line already, or will have one:
// its request, a "done" after "acknowledged", and the report that the lock is open. An
// unlock that a restart interrupts gets an outcome too, "unknown", at the next start.
func (t *textRecords) hidden(r site.Record) bool {
	at := door{r.Station, r.Lock}
	last := t.latest[at]
	same := r.Command == last.command
	switch r.Kind {
	case site.KindUnlock:
		t.latest[at] = opening{r.Command, r.Outcome, r.Time.Time, same && last.reported}
		return r.Outcome == site.Requested || r.Outcome == site.Done && same && last.outcome == site.Acknowledged
	case site.KindLockChanged:
		t.latest[at] = opening{last.command, last.outcome, last.at, true}
		return !last.reported && r.Status == site.Unlocked && r.Time.Sub(last.at) < openingTime
	}
	return false
}

// End implements [recordWriter].
func (t *textRecords) End() error {
	if !t.any {
		t.out.printf("No records match.")
	}
	return t.out.err
}

// timeHeading names the time zone.
func (t *textRecords) timeHeading() string {
	if t.app.zone == time.Local {
		return "TIME (" + t.app.now().Format("MST") + ")"
	}
	return "TIME (" + t.app.zone.String() + ")"
}

func (t *textRecords) row(seq, when, kind, what string) {
	widths := []int{6, max(len(time.DateTime+"?"), len(t.timeHeading())), 17}
	t.out.row(widths, fmt.Sprintf("%*s", widths[0], seq), when, kind, what)
}

// factsText returns in one line what a record contains beside its kind and time.
func factsText(r site.Record, names map[site.StationID]string) string {
	var parts []string
	add := func(text string, present bool) {
		if present {
			parts = append(parts, printable(text))
		}
	}
	add(string(r.Email), r.Email != "")
	add("by "+r.Doer(), r.Doer() != "")
	add("account "+string(r.Account), r.Account != "" && r.Email == "")
	station := "station " + r.Station.String()
	if name := names[r.Station]; name != "" {
		station += " (" + name + ")"
	}
	add(station, r.Station != 0)
	add(r.Lock, r.Lock != "")
	add(string(r.Outcome), r.Outcome != "")
	add("answer "+r.Answer, r.Answer != "")
	add(string(r.Status), r.Status != "")
	add(volts(r.BatteryVoltage), r.BatteryVoltage != nil)
	add("from "+r.Remote, r.Remote != "")
	add("from the cloud", r.Origin == site.Cloud)
	add(r.Detail, r.Detail != "")
	add(countText(r), r.Count > 1 && r.To == 0)
	add(fmt.Sprintf("records %d to %d", r.From, r.To), r.To != 0)
	add("jti "+r.JTI, r.JTI != "")
	return strings.Join(parts, "  ")
}

// countText returns what the count of a record counts.
func countText(r site.Record) string {
	switch r.Kind {
	case site.KindSessionRevoked, site.KindRestored:
		return plural(r.Count, "session")
	case site.KindDoorOpened, site.KindDoorClosed, site.KindNotOpened:
		return plural(r.Count, "change") + " before without a record"
	default:
		return fmt.Sprintf("%d times", r.Count)
	}
}
