package main

import (
	"encoding/json"
	"errors"
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

// table writes rows in aligned columns, the first of them a heading in capitals.
func (l *lines) table(heading []string, rows [][]string) {
	columns := tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
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
		rows := make([][]string, len(all))
		for i, one := range all {
			rows[i] = row(one)
		}
		w.table(heading, rows)
	}
}

// pairs writes names and values in two aligned columns; an empty name continues the
// one above.
func (l *lines) pairs(rows [][2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		l.row([]int{width}, row[:]...)
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
