package doctor

import (
	"errors"
	"os"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

// asRoot is the command that sees what only root sees.
const asRoot = "sudo gatehouse doctor"

// sheet is the outcome of one check.
type sheet struct {
	check    string
	findings []Finding
}

// find adds a finding with the command that fixes it; an empty fact is left out.
func (s *sheet) find(severity health.Severity, summary, fix string, evidence ...string) {
	facts := []string{} // never null in JSON
	for _, fact := range evidence {
		if fact != "" {
			facts = append(facts, oneLine(fact))
		}
	}
	s.findings = append(s.findings, Finding{Check: s.check, Severity: severity, Summary: oneLine(summary), Evidence: facts, Fix: fix})
}

// oneLine joins the lines of a text: an error may have several.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// fine adds that all is well, unless there is a finding.
func (s *sheet) fine(summary string, evidence ...string) {
	if len(s.findings) == 0 {
		s.find(OK, summary, "", evidence...)
	}
}

// unread adds that something could not be read, and why.
func (s *sheet) unread(what string, err error) {
	if mayNot(err) {
		s.find(Skipped, "this user may not read "+what, asRoot)
		return
	}
	s.find(Skipped, what+" cannot be read: "+fault.Text(err), "")
}

// mayNot reports whether an error only says that this user has no permission.
func mayNot(err error) bool {
	return errors.Is(err, os.ErrPermission) || fault.Is(err, fault.Forbidden)
}

// moment returns a time in UTC, for people.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
