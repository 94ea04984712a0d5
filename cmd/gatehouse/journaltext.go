package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// textRecords writes records for people. Of an unlock it writes the outcome only, unless
// all are asked for.
type textRecords struct {
	app     *app
	out     *lines
	all     bool
	names   map[site.StationID]string
	pending map[site.CommandID]site.Record // unlocks that were requested and have no outcome yet
	opening map[door]time.Time             // when the latest unlock was requested, until the lock has reported it
	shown   map[door]site.CommandID        // the latest unlock that was acknowledged
	boot    site.BootID                    // of the latest record
	any     bool                           // a record was read
}

// door is one lock of one station.
type door struct {
	station site.StationID
	lock    string
}

// openingTime is how long after its request an unlock explains that a lock is open.
const openingTime = 10 * time.Second

func newTextRecords(a *app, out *lines, all bool, names map[site.StationID]string) *textRecords {
	return &textRecords{
		app: a, out: out, all: all, names: names,
		pending: map[site.CommandID]site.Record{}, opening: map[door]time.Time{}, shown: map[door]site.CommandID{},
	}
}

// begin implements [recordWriter]. The heading waits for a record.
func (*textRecords) begin() error { return nil }

// record implements [recordWriter].
func (t *textRecords) record(r site.Record) error {
	if !t.any {
		t.any = true
		t.row("SEQ", t.timeHeading(), "KIND", "WHAT")
	}
	if r.Boot != t.boot { // no outcome follows a restart
		t.flush()
	}
	t.boot = r.Boot
	if t.all || !t.hidden(r) {
		t.write(r)
	}
	return t.out.err
}

// hidden reports whether r belongs to an unlock that has a line already, or will have one:
// its request, the report that the lock is open, and a "done" after "acknowledged".
func (t *textRecords) hidden(r site.Record) bool {
	at := door{r.Station, r.Lock}
	switch {
	case r.Kind == site.KindUnlock && r.Outcome == site.Requested:
		t.pending[r.Command], t.opening[at] = r, r.Time.Time
		return true
	case r.Kind == site.KindUnlock && r.Outcome == site.Done && r.Command == t.shown[at]:
		return true
	case r.Kind == site.KindUnlock:
		delete(t.pending, r.Command)
		if r.Outcome == site.Acknowledged {
			t.shown[at] = r.Command
		}
	case r.Kind == site.KindLockChanged:
		requested, ok := t.opening[at]
		delete(t.opening, at)
		return ok && r.Status == site.Unlocked && r.Time.Sub(requested) < openingTime
	}
	return false
}

// end implements [recordWriter].
func (t *textRecords) end() error {
	t.flush()
	if !t.any {
		t.out.printf("No records match.")
	}
	return t.out.err
}

// flush writes the unlocks whose outcome was not read.
func (t *textRecords) flush() {
	bySeq := func(a, b site.Record) int { return cmp.Compare(a.Seq, b.Seq) }
	for _, r := range slices.SortedFunc(maps.Values(t.pending), bySeq) {
		t.write(r)
	}
	clear(t.pending)
	clear(t.opening)
}

func (t *textRecords) write(r site.Record) {
	when := r.Time.In(t.app.zone).Format(time.DateTime)
	if !r.ClockTrusted {
		when += "?"
	}
	t.row(strconv.FormatUint(r.Seq, 10), when, string(r.Kind), factsText(r, t.names))
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
	if r.Kind == site.KindSessionRevoked || r.Kind == site.KindRestored {
		return plural(r.Count, "session")
	}
	return fmt.Sprintf("%d times", r.Count)
}
