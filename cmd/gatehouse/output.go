package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"gatehouse/internal/site"
)

// result writes what a command is asked for: document as JSON with --json, else
// what human writes. The first write that fails is the error.
func (a *app) result(document any, human func(w *lines)) error {
	if a.json {
		return a.document(document)
	}
	w := &lines{w: a.stdout}
	human(w)
	return w.err
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

// list gives a list that JSON shows as [] and never as null.
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

// printf writes one line.
func (l *lines) printf(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format+"\n", args...)
	}
}

// table writes rows in aligned columns under a head in capitals.
func (l *lines) table(head []string, rows [][]string) {
	if l.err != nil {
		return
	}
	tw := tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		// The last column needs no padding.
		_, _ = fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	l.err = tw.Flush()
}

// pairs writes names and values in two aligned columns; an empty name goes on
// with the one above.
func (l *lines) pairs(rows [][2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		l.printf("%-*s  %s", width, row[0], printable(row[1]))
	}
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

// localLayout is how people read a time: their own clock, with its offset.
const localLayout = "2006-01-02 15:04:05 -0700"

func (a *app) local(t time.Time) string { return t.In(a.zone).Format(localLayout) }

// stamp is local for a time that may be missing.
func (a *app) stamp(t site.Timestamp) string {
	if t.IsZero() {
		return "never"
	}
	return a.local(t.Time)
}

// plural gives "1 session", "2 sessions".
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
