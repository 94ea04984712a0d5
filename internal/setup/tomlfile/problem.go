package tomlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gatehouse/internal/site"
)

// maxProblems is how many problems an [Error] has at most. More would help no reader.
const maxProblems = 20

// Problem is one thing that is wrong with a file or with the settings of a gateway.
type Problem struct {
	File string `json:"file,omitempty"` // or the name of a variable; "" where there is neither
	Line int    `json:"line,omitempty"` // counts from 1; 0 where there is none
	Text string `json:"text"`           // one sentence for people, without any secret
}

// String returns the problem on one line: "FILE:LINE: sentence".
func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return p.File + ": " + p.Text
	default:
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	}
}

// Error is everything that is wrong: at least one problem.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Report returns an [*Error] with the problems, or nil where there are none. Files keep
// the order in which they first appear; the problems of a file are sorted by line, those
// without a line last. Of several problems of one line it has the first.
func Report(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	rank := map[string]int{}
	for _, p := range problems {
		if _, known := rank[p.File]; !known {
			rank[p.File] = len(rank)
		}
	}
	ordered := slices.Clone(problems)
	slices.SortStableFunc(ordered, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank[a.File], rank[b.File]), cmp.Compare(uint(a.Line-1), uint(b.Line-1))) //nolint:gosec // 0 becomes the largest
	})
	ordered = slices.CompactFunc(ordered, func(a, b Problem) bool { return a.Line > 0 && a.File == b.File && a.Line == b.Line })
	if more := len(ordered) - maxProblems; more > 0 {
		ordered = append(ordered[:maxProblems], Problem{File: ordered[0].File, Text: fmt.Sprintf("%d more problems are not shown", more)})
	}
	return &Error{ordered}
}

// Quote and Clip keep a text from outside short and on one line.
func Quote(text string) string { return strconv.Quote(site.Clip(text)) }

// Clip is [Quote] without the quotes: what cannot be printed becomes a question mark.
func Clip(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, site.Clip(text))
}

// Nearest returns the word that text was most likely meant to be, or "".
func Nearest(text string, words []string) string {
	best, least := "", max(2, min(len(text)/3, 4))+1
	for _, word := range words {
		if d := distance(site.Clip(text), word); d < least && d < len(word)-1 {
			best, least = word, d
		}
	}
	return best
}

// distance is the number of single letters to change, add or remove (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
