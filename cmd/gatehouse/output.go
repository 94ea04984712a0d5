package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

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
	w     io.Writer
	width int // of the terminal in characters, at which lines wrap; 0: they do not
	err   error
}

// text returns the lines of standard output.
func (a *app) text() *lines {
	l := &lines{w: a.stdout}
	if screen, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(screen.Fd())) {
		l.width, _, _ = term.GetSize(int(screen.Fd()))
	}
	return l
}

// printf writes one line. On a terminal it wraps; its further lines are indented as it is.
func (l *lines) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	l.line(line, len(line)-len(strings.TrimLeft(line, " >")))
}

// line writes one line; on a terminal it wraps at blanks, and its further lines begin
// with indent blanks.
func (l *lines) line(line string, indent int) {
	for _, piece := range wrap(line, l.width, indent) {
		if l.err == nil {
			_, l.err = io.WriteString(l.w, piece+"\n")
		}
	}
}

// wrap breaks a line at blanks, so that no piece is wider than width where its words
// allow that. The pieces but the first begin with indent blanks.
func wrap(line string, width, indent int) (pieces []string) {
	longest := 0
	for word := range strings.FieldsSeq(line) {
		longest = max(longest, utf8.RuneCountInString(word))
	}
	if indent+max(longest, width/4) > width {
		indent = min(width/4, 4)
	}
	for width > 0 && utf8.RuneCountInString(line) > width {
		words := strings.TrimLeft(line, " ")
		margin := len(line) - len(words)
		fit := string([]rune(words)[:max(width-margin, 0)+1])
		cut := strings.LastIndex(fit, " ")
		if cut < 0 {
			cut = strings.Index(words, " ") // behind a word that is too wide
		}
		if cut < 0 {
			break
		}
		pieces = append(pieces, strings.TrimRight(line[:margin+cut], " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(words[cut:], " ")
	}
	return append(pieces, line)
}

// table writes rows in aligned columns under a heading in capitals.
func (l *lines) table(heading []string, rows [][]string) {
	rows = append([][]string{heading}, rows...)
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		l.row(widths, row...)
	}
}

// row writes cells in columns of these widths. The last column wraps below itself.
func (l *lines) row(widths []int, cells ...string) {
	line, last := "", len(cells)-1
	for i, cell := range cells[:last] {
		line += fmt.Sprintf("%-*s  ", widths[i], printable(cell))
	}
	l.line(strings.TrimRight(line+printable(cells[last]), " "), utf8.RuneCountInString(line))
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
