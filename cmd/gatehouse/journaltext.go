package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// textRecords writes records for people. Of an unlock it writes the outcome only, unless
// all are asked for: an acknowledgement waits for the result that may follow it, and the
// records after it wait too.
type textRecords struct {
	app    *app
	all    bool
	names  map[site.StationID]string
	follow bool // an acknowledgement waits in real time too

	mu     sync.Mutex // mu guards what follows
	out    *lines
	latest map[door]opening // the latest unlock of each lock
	any    bool             // a record was read
	held   []heldRecord     // in their order; the first is an acknowledgement
	timer  *time.Timer      // releases held ones; nil: none does
}

// heldRecord is a record that waits to be written.
type heldRecord struct {
	site.Record
	came time.Time
}

// waits reports whether it is an acknowledgement, which a result may follow.
func (r heldRecord) waits() bool { return r.Kind == site.KindUnlock && r.Outcome == site.Acknowledged }

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

// How long an acknowledgement waits for the result: in real time, and between the records
// of the journal, where waiting takes no time.
const (
	resultTime   = site.DefaultTTL
	resultWithin = time.Minute
)

// Record implements [recordWriter].
func (t *textRecords) Record(r site.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.any {
		t.any = true
		t.row("SEQ", t.timeHeading(), "KIND", "WHAT")
	}
	if t.all {
		t.write(r)
		return t.out.err
	}
	replaced := t.replaces(r)
	if !t.hidden(r) || replaced {
		t.held = append(t.held, heldRecord{r, time.Now()})
	}
	t.release(func(h heldRecord) bool { return r.Time.Sub(h.Time.Time) >= resultWithin })
	if len(t.held) > 0 && t.follow && t.timer == nil {
		t.timer = time.AfterFunc(resultTime, t.overdue)
	}
	return t.out.err
}

// replaces drops the acknowledgement that r is the result of, where that still waits. mu is
// held.
func (t *textRecords) replaces(r site.Record) bool {
	before := len(t.held)
	t.held = slices.DeleteFunc(t.held, func(h heldRecord) bool { return h.waits() && r.Kind == h.Kind && r.Command == h.Command })
	return len(t.held) < before
}

// release writes the records that are held, up to the first acknowledgement that is not over.
// mu is held.
func (t *textRecords) release(over func(heldRecord) bool) {
	for len(t.held) > 0 && (!t.held[0].waits() || over(t.held[0])) {
		t.write(t.held[0].Record)
		t.held = t.held[1:]
	}
}

// overdue writes what has waited long enough, because no result has come.
func (t *textRecords) overdue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return
	}
	t.timer = nil
	t.release(func(h heldRecord) bool { return time.Since(h.came) >= resultTime })
	if len(t.held) > 0 {
		t.timer = time.AfterFunc(resultTime-time.Since(t.held[0].came), t.overdue)
	}
}

// write writes a record; mu is held.
func (t *textRecords) write(r site.Record) {
	when := r.Time.In(t.app.zone).Format(time.DateTime)
	if !r.ClockTrusted {
		when += "?"
	}
	r.Detail = t.app.localText(r.Detail)
	t.row(strconv.FormatUint(r.Seq, 10), when, string(r.Kind), factsText(r, t.names))
}

// hidden reports whether r belongs to an unlock that has a line already, or will have one:
// its request, a "done" after "acknowledged" was written, and the report that the lock is open. An
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.release(func(heldRecord) bool { return true })
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
