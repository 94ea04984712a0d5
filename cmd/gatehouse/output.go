package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"gatehouse/internal/config"
	"gatehouse/internal/site"
)

// result writes what a command is asked for: document as JSON with --json, else
// what human writes. The first write that fails is the error.
func (a *app) result(document any, human func(w *lines)) error {
	if a.json {
		return a.document(document)
	}
	w := a.text()
	human(w)
	return w.err
}

// show returns a function that writes an answer of the gateway as [app.result] does, or
// returns its error.
func show[T any](a *app, human func(*lines, T)) func(T, error) error {
	return func(answer T, err error) error {
		if err != nil {
			return err
		}
		return a.result(answer, func(w *lines) { human(w, answer) })
	}
}

// document writes one JSON document in one line.
func (a *app) document(document any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// list returns a list that JSON shows as [] and never as null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// lines writes text for people and keeps the first error.
type lines struct {
	w   io.Writer
	err error
}

// text returns the lines of standard output.
func (a *app) text() *lines { return &lines{w: a.stdout} }

// printf writes one line.
func (l *lines) printf(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format+"\n", args...)
	}
}

// table writes rows in aligned columns. Of a listing the first row is a heading in
// capitals; where rows are a name with its values, one without a name continues the one
// above.
func (l *lines) table(rows [][]string) {
	columns := tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		_, _ = fmt.Fprintln(columns, strings.Join(cells, "\t")) // Flush has its error
	}
	l.err = errors.Join(l.err, columns.Flush())
}

// listing returns a function that writes a table of a row each, or where there is nothing
// to list the sentence none.
func listing[T any](none string, heading []string, row func(T) []string) func(*lines, []T) {
	return func(w *lines, all []T) {
		if len(all) == 0 {
			w.printf("%s", none)
			return
		}
		rows := [][]string{heading}
		for _, one := range all {
			rows = append(rows, row(one))
		}
		w.table(rows)
	}
}

// row writes cells in columns of these widths. The last one is not padded.
func (l *lines) row(widths []int, cells ...string) {
	line, last := "", len(cells)-1
	for i, cell := range cells[:last] {
		line += fmt.Sprintf("%-*s  ", widths[i], printable(cell))
	}
	l.printf("%s", strings.TrimRight(line+printable(cells[last]), " "))
}

// printable makes a text that others chose fit for a terminal: no control
// characters, so no escape sequences and no further lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// local returns a time as people read it.
func (a *app) local(t time.Time) string { return t.In(a.zone).Format(time.DateTime + " MST") }

// instant matches a time as records and messages have it.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// localText returns a text with its times as people read them.
func (a *app) localText(text string) string {
	return instant.ReplaceAllStringFunc(text, func(stated string) string {
		t, err := time.Parse(time.RFC3339, stated)
		if err != nil {
			return stated
		}
		return a.local(t)
	})
}

// hour returns the time of the day.
func (a *app) hour(t time.Time) string { return t.In(a.zone).Format(time.TimeOnly) }

// stamp is local for a time that may be missing.
func (a *app) stamp(t site.Timestamp) string {
	if t.IsZero() {
		return "never"
	}
	return a.local(t.Time)
}

// plural returns "1 session", "2 sessions".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// terminal returns the file of a terminal that out is; false for anything else.
func (a *app) terminal(out io.Writer) (*os.File, bool) {
	f, ok := out.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && config.Lookup(a.environ, "TERM") != "dumb"
}

// screen shows a row for each station on a terminal, and draws them in place. Safe for
// concurrent use.
type screen struct {
	file    *os.File
	heading []string

	mu    sync.Mutex // mu guards what follows
	rows  map[site.StationID][]string
	soon  *time.Timer // of the next drawing; nil: nothing has changed since the last
	drawn int         // lines of the last drawing
	err   error       // of the last drawing
}

// screen returns a screen on standard output; nil where that is no terminal, or with
// --json: there each change is a line.
func (a *app) screen(heading ...string) *screen {
	file, ok := a.terminal(a.stdout)
	if !ok || a.json {
		return nil
	}
	return &screen{file: file, heading: heading, rows: make(map[site.StationID][]string)}
}

// drawAfter is how soon a change is drawn, with those that follow it.
const drawAfter = 100 * time.Millisecond

// set sets the row of a station; without cells it has none. It is drawn soon. The error
// is that of the last drawing.
func (s *screen) set(id site.StationID, cells ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[id] = cells; len(cells) == 0 {
		delete(s.rows, id)
	}
	if s.soon == nil {
		s.soon = time.AfterFunc(drawAfter, s.end)
	}
	return s.err
}

// clear removes every row, before others are set.
func (s *screen) clear() {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.rows)
	}
}

// end draws what was not drawn yet.
func (s *screen) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.soon != nil {
		s.soon.Stop()
		s.soon, s.err = nil, s.draw()
	}
}

// draw draws the rows, by id, over those of the last drawing, as far as they fit, with one
// write, so that nothing flickers. Lines are cut at the width of the terminal. mu is held.
func (s *screen) draw() error {
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	rows := [][]string{s.heading}
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		rows = append(rows, s.rows[id])
	}
	room := min(max(height-2, 2), len(rows)) // less the count of the rest, and the cursor
	var text strings.Builder
	w := &lines{w: &text}
	w.table(rows[:room])
	if rest := len(rows) - room; rest > 0 {
		w.printf("and %s more", plural(rest, "station"))
	}
	out := "\x1b[?7l" // wide characters wrap no line
	if s.drawn > 0 {
		out += fmt.Sprintf("\r\x1b[%dA", s.drawn)
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:width-1]) + "…"
		}
		out += line + "\x1b[K\n"
	}
	s.drawn = strings.Count(text.String(), "\n")
	_, err = s.file.WriteString(out + "\x1b[J\x1b[?7h")
	return err
}

// workingAfter is how long a command may take before it shows that it works.
const workingAfter = time.Second

// working shows, on a terminal, what takes more than a second and for how long it has,
// until done is called. It shows nothing where standard error is a file or a pipe.
func (a *app) working(what string) (done func()) {
	_, done = a.workingOn(what)
	return done
}

// workingOn is working for what changes: show sets what is shown next.
func (a *app) workingOn(first string) (show func(string), done func()) {
	file, ok := a.terminal(a.stderr)
	if !ok {
		return func(string) {}, func() {}
	}
	began, stop := time.Now(), make(chan struct{})
	var what atomic.Pointer[string]
	what.Store(&first)
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(workingAfter)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = file.WriteString("\r" + *what.Load() + " … " + time.Since(began).Round(time.Second).String() + "\x1b[K")
			case <-stop:
				if time.Since(began) >= workingAfter {
					_, _ = file.WriteString("\r\x1b[K")
				}
				return
			}
		}
	})
	return func(now string) { what.Store(&now) }, sync.OnceFunc(func() { close(stop); shown.Wait() })
}
