// Package doctor examines a gateway and the machine that it runs on: what is wrong, how
// that shows, and which command fixes it. It works while the gateway is down, and for a
// gateway whose configuration is broken. A running gateway is asked for what it knows: its
// conditions come with advice.
//
// Promises: nothing is changed, and no check hangs: each has a time limit. What could not
// be checked is reported with the reason, and never taken for a finding. Each check is a
// function over a [machine.Machine] and what the gateway reports. The command line calls
// [Examine] and prints the [Report]; it decides nothing itself.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// The severities beside those of conditions: what was checked and is fine, and what could
// not be checked.
const (
	OK      health.Severity = "ok"
	Skipped health.Severity = "skipped"
)

// Finding is what a check found.
type Finding struct {
	Check    string          `json:"check"`    // the name of the check
	Severity health.Severity `json:"severity"` // fatal, warning, notice, skipped or ok
	Summary  string          `json:"summary"`  // one sentence
	Evidence []string        `json:"evidence"` // the facts, as they were measured
	Fix      string          `json:"mend,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	Time     site.Timestamp `json:"time"`
	Version  string         `json:"version"`  // of the program that examined
	Healthy  bool           `json:"healthy"`  // nothing is worse than a notice
	Findings []Finding      `json:"findings"` // worst first
}

// Count returns how many findings have a severity.
func (r Report) Count(severity health.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// Gateway is what a running gateway answers. Its methods return a fault.Error:
// Unavailable when no gateway answers, Forbidden when this user may not ask it.
type Gateway interface {
	Status(ctx context.Context) (adminapi.Status, error)
	Database(ctx context.Context) (adminapi.Database, error)
}

// Config is what an examination needs.
type Config struct {
	Machine machine.Machine
	File    string   // the configuration file that was named, or ""
	Socket  string   // the gateway's socket that was named, or ""
	Environ []string // in the form of [os.Environ]
	Version string   // of this program

	Connect func(socket string) Gateway

	// Files reads the configuration, Database examines the database file of a gateway that
	// does not run.
	Files    func(path string, environ []string) ([]config.File, error)
	Database func(ctx context.Context, path string) (site.DatabaseState, error)

	// Update returns how updates of the system stand, where no gateway runs that says so.
	Update func() site.UpdateStatus
}

// check is one thing to examine.
type check struct {
	name string
	do   func(ctx context.Context, g *subject, s *sheet)
}

const (
	// checkLimit is how long a check may take, and killGrace how long after that it may
	// still end by itself.
	checkLimit = 30 * time.Second
	killGrace  = 2 * time.Second

	// askLimit is how long the gateway or systemd may take for one answer. Starting
	// systemctl alone takes seconds on a busy board.
	askLimit = 12 * time.Second
)

// Examine does every check. One that hangs in the disk is left behind, with those after
// it.
func Examine(ctx context.Context, cfg Config) Report {
	g := new(subject)
	all := []check{ // in the order in which a report names them
		{"preparation", func(ctx context.Context, g *subject, _ *sheet) { *g = *newSubject(ctx, cfg) }}, // reads the configuration
		{"gateway", checkGateway},
		{"configuration", checkConfiguration},
		{"ports", checkPorts},
		{"service", checkService},
		{"update", checkUpdate},
		{"data", checkData},
		{"disk", checkDisk},
		{"writes", checkWrites},
		{"database", checkDatabase},
	}
	r := Report{Time: site.At(cfg.Machine.Now()), Version: cfg.Version, Findings: []Finding{}}
	for i, c := range all {
		s, done := c.run(ctx, g)
		if !done {
			s = &sheet{check: c.name}
			s.find(Skipped, "it took longer than "+checkLimit.String()+": the disk or the system may hang", "dmesg | tail -n 50")
			for _, other := range all[i+1:] {
				s.check = other.name
				s.find(Skipped, "not checked, because "+c.name+" hangs", "")
			}
		}
		r.Findings = append(r.Findings, s.findings...)
		if !done {
			break
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	r.Healthy = r.Count(health.Fatal)+r.Count(health.Warning) == 0
	return r
}

func rank(s health.Severity) int {
	return slices.Index([]health.Severity{health.Fatal, health.Warning, health.Notice, Skipped, OK}, s)
}

// run does the check; false where it does not end in time.
func (c check) run(ctx context.Context, g *subject) (s *sheet, done bool) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	ended := make(chan *sheet, 1)
	go func() {
		defer cancel()
		s := &sheet{check: c.name}
		c.do(ctx, g, s)
		ended <- s
	}()
	grace := time.NewTimer(checkLimit + killGrace)
	defer grace.Stop()
	select {
	case s = <-ended:
		return s, true
	case <-grace.C:
		return nil, false
	}
}
