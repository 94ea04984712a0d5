package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

// sheet is what one check writes down.
type sheet struct {
	check     string
	findings  []Finding
	unchecked []Unchecked
}

func (s *sheet) find(severity health.Severity, summary, mend string, evidence []string) {
	kept := []string{} // never null in JSON
	for _, fact := range evidence {
		if fact = oneLine(fact); fact != "" {
			kept = append(kept, fact)
		}
	}
	s.findings = append(s.findings, Finding{Check: s.check, Severity: severity, Summary: oneLine(summary), Evidence: kept, Mend: oneLine(mend)})
}

// oneLine joins the lines of a text, as an error of several has them.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// fatal, warn and notice write down what is wrong; an empty fact is left out.
func (s *sheet) fatal(summary, mend string, evidence ...string) {
	s.find(health.Fatal, summary, mend, evidence)
}

func (s *sheet) warn(summary, mend string, evidence ...string) {
	s.find(health.Warning, summary, mend, evidence)
}

func (s *sheet) notice(summary, mend string, evidence ...string) {
	s.find(health.Notice, summary, mend, evidence)
}

// fine says that the check found nothing, unless it did.
func (s *sheet) fine(summary string, evidence ...string) {
	if len(s.findings) == 0 {
		s.find(OK, summary, "", evidence)
	}
}

// skip says what could not be checked.
func (s *sheet) skip(why, mend string) {
	s.unchecked = append(s.unchecked, Unchecked{Check: s.check, Why: oneLine(why), Mend: mend})
}

// asRoot is the way to see what only root sees.
const asRoot = "sudo gatehouse doctor"

// denied says that a thing could not be read, and why.
func (s *sheet) denied(what string, err error) {
	switch {
	case errors.Is(err, os.ErrPermission), fault.Is(err, fault.Forbidden):
		s.skip("this user may not read "+what, asRoot)
	default:
		s.skip(what+" cannot be read: "+sentence(err), "")
	}
}

// sentence gives the words for people of an error that has some.
func sentence(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Sentence != "" {
		return e.Sentence
	}
	return err.Error()
}

// size gives bytes in the unit that fits them, such as "1.2 MB".
func size(n int64) string {
	value, unit := float64(n), 0
	units := [...]string{"B", "kB", "MB", "GB", "TB"}
	for value >= 1000 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// moment gives a time for people, as everybody reads it alike.
func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// span gives a long duration in the unit that fits it.
func span(d time.Duration) string {
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", int(d/day))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d/time.Hour))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", int(d/time.Minute))
	default:
		return fmt.Sprintf("%d seconds", int(d/time.Second))
	}
}

// plural gives "1 problem", "2 problems".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listed gives facts under a name, or "" where there are none.
func listed(name string, facts []string) string {
	if len(facts) == 0 {
		return ""
	}
	return name + ": " + strings.Join(facts, ", ")
}
