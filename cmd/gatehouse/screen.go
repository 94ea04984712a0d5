package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"gatehouse/internal/site"
)

// terminal returns the file of a terminal that out is; false for anything else.
func (a *app) terminal(out io.Writer) (*os.File, bool) {
	f, ok := out.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && a.variable("TERM") != "dumb"
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
	var rows [][]string
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		rows = append(rows, s.rows[id])
	}
	room := min(max(height-3, 1), len(rows)) // less the heading, the count of the rest, and the cursor
	var text strings.Builder
	w := &lines{w: &text}
	w.table(s.heading, rows[:room])
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
	file, ok := a.terminal(a.stderr)
	if !ok {
		return func() {}
	}
	began, stop := time.Now(), make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(workingAfter)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = file.WriteString("\r" + what + " … " + time.Since(began).Round(time.Second).String() + "\x1b[K")
			case <-stop:
				if time.Since(began) >= workingAfter {
					_, _ = file.WriteString("\r\x1b[K")
				}
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(stop); shown.Wait() })
}
