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

// sheet is the outcome of one check.
type sheet struct {
	check    string
	findings []Finding
}

func (s *sheet) find(severity health.Severity, summary, fix string, evidence []string) {
	facts := []string{} // never null in JSON
	for _, fact := range evidence {
		if fact = oneLine(fact); fact != "" {
			facts = append(facts, fact)
		}
	}
	s.findings = append(s.findings, Finding{Check: s.check, Severity: severity, Summary: summary, Evidence: facts, Fix: fix})
}

// oneLine joins the lines of a text: an error may have several.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// fatal, warn and notice add a finding; an empty fact is left out.
func (s *sheet) fatal(summary, fix string, evidence ...string) {
	s.find(health.Fatal, summary, fix, evidence)
}

func (s *sheet) warn(summary, fix string, evidence ...string) {
	s.find(health.Warning, summary, fix, evidence)
}

func (s *sheet) notice(summary, fix string, evidence ...string) {
	s.find(health.Notice, summary, fix, evidence)
}

// fine adds that all is well, unless there is a finding.
func (s *sheet) fine(summary string, evidence ...string) {
	if len(s.findings) == 0 {
		s.find(OK, summary, "", evidence)
	}
}

// skip adds that something could not be checked.
func (s *sheet) skip(why, fix string) {
	s.find(Skipped, oneLine(why), fix, nil)
}

// asRoot is the command that sees what only root sees.
const asRoot = "sudo gatehouse doctor"

// unread adds that something could not be read, and why.
func (s *sheet) unread(what string, err error) {
	if mayNot(err) {
		s.skip("this user may not read "+what, asRoot)
		return
	}
	s.skip(what+" cannot be read: "+sentence(err), "")
}

// mayNot reports whether an error only says that this user has no permission.
func mayNot(err error) bool {
	return errors.Is(err, os.ErrPermission) || fault.Is(err, fault.Forbidden)
}

// sentence returns the sentence of an error that has one for people, else its text.
func sentence(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Sentence != "" {
		return e.Sentence
	}
	return err.Error()
}

// moment returns a time in UTC, for people.
func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// plural returns "1 problem", "2 problems".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
