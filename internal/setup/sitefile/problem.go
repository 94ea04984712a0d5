package sitefile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many problems an [Error] shows: more do not help whoever
// reads them.
const maxProblems = 20

// Problem is one thing that is wrong with a site.
type Problem struct {
	Line int    // counts from 1; 0 when the site came from elsewhere than a file
	Text string // one sentence for people, without any secret
}

// Error is everything that is wrong with a site.
type Error struct {
	File     string    // as the caller named it; empty when there is none
	Problems []Problem // in the order of their lines; at most 20
	More     int       // how many further problems are not shown

	Unreadable bool // whether the text is no TOML, so that nothing in it was looked at
}

// Error gives one line for each problem, "site.toml:12: unknown key …".
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		switch {
		case e.File == "":
			lines = append(lines, p.Text)
		case p.Line == 0:
			lines = append(lines, e.File+": "+p.Text)
		default:
			lines = append(lines, fmt.Sprintf("%s:%d: %s", e.File, p.Line, p.Text))
		}
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// unreadable is the error of a text in which nothing could be looked at.
func unreadable(file string, p Problem) error {
	return &Error{File: file, Problems: []Problem{p}, Unreadable: true}
}

// Report makes an [*Error] of problems, in the order of their lines; none make nil.
func Report(file string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	e := &Error{File: file, Problems: problems}
	if len(problems) > maxProblems {
		e.Problems, e.More = problems[:maxProblems:maxProblems], len(problems)-maxProblems
	}
	return e
}
