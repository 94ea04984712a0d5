package firstboot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
)

// Problem is one thing that is wrong.
type Problem struct {
	File string `json:"file,omitempty"` // or what else names the place; "" where there is none
	Line int    `json:"line,omitempty"` // counts from 1; 0 where there is none
	Text string `json:"text"`           // a sentence for people, without any secret
}

// String gives the problem in one line, "FILE:LINE: sentence".
func (p Problem) String() string { return p.under(p.File) }

// under is String with another name of the file.
func (p Problem) under(file string) string {
	switch {
	case file == "":
		return p.Text
	case p.Line == 0:
		return file + ": " + p.Text
	default:
		return fmt.Sprintf("%s:%d: %s", file, p.Line, p.Text)
	}
}

// Refusal is why a first boot was not done, or not to its end. It has at least one
// problem.
type Refusal struct{ Problems []Problem }

// Error gives one line for each problem.
func (r *Refusal) Error() string {
	lines := make([]string, len(r.Problems))
	for i, p := range r.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// refuse makes a Refusal of one problem.
func refuse(file, format string, args ...any) error {
	return &Refusal{[]Problem{{File: file, Text: fmt.Sprintf(format, args...)}}}
}

// problemsOf takes the problems out of whatever error.
func problemsOf(err error) []Problem {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Problems
	}
	return []Problem{{Text: sentence(err)}}
}

// sentence gives what people may see of an error.
func sentence(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Sentence != "" {
		return e.Sentence
	}
	return err.Error()
}

// ofSite gives the problems of a site file.
func ofSite(path string, err error) []Problem {
	e, ok := errors.AsType[*sitefile.Error](err)
	if !ok {
		return problemsOf(err)
	}
	var all []Problem
	for _, p := range e.Problems {
		all = append(all, Problem{File: path, Line: p.Line, Text: p.Text})
	}
	if e.More > 0 {
		all = append(all, Problem{File: path, Text: fmt.Sprintf("%d more problems are not shown", e.More)})
	}
	return all
}

// ofConfig gives the problems of a configuration.
func ofConfig(err error) []Problem {
	e, ok := errors.AsType[*config.Error](err)
	if !ok {
		return problemsOf(err)
	}
	var all []Problem
	for _, p := range e.Problems {
		file := p.Where
		if p.Line > 0 {
			file = strings.TrimSuffix(file, fmt.Sprintf(":%d", p.Line))
		}
		all = append(all, Problem{File: file, Line: p.Line, Text: p.What})
	}
	return all
}

// inOrder puts the problems of the file at path first, by line; those without a line
// come last.
func inOrder(path string, all []Problem) []Problem {
	rank := func(p Problem) int {
		switch {
		case p.File != path:
			return 2
		case p.Line == 0:
			return 1
		default:
			return 0
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Line, b.Line))
	})
	return all
}

// cause words an error of the file system without the name of the system call.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func parentOf(path string) string { return filepath.Dir(path) }
