// Package doctor examines a gateway and the machine that it runs on: what is wrong,
// how that shows, and which command fixes it. It works while the gateway is down, and
// for a gateway whose configuration is broken.
//
// Promises: nothing is changed, and no check hangs: each has its time, and what could
// not be checked is said with the reason. Each check is a function over a [machine.Machine]
// and what the gateway says of itself. The command line calls [Examine] and writes the
// [Report]; it decides nothing itself.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// OK is the severity of a finding that is none: what was checked is fine.
const OK health.Severity = "ok"

// Finding is what a check found.
type Finding struct {
	Check    string          `json:"check"`    // the name of the check
	Severity health.Severity `json:"severity"` // ok, notice, warning or fatal
	Summary  string          `json:"summary"`  // one sentence
	Evidence []string        `json:"evidence"` // the facts, as they were measured
	Mend     string          `json:"mend,omitempty"`
}

// Unchecked is what could not be looked at.
type Unchecked struct {
	Check string `json:"check"`
	Why   string `json:"why"`
	Mend  string `json:"mend,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	Time      site.Timestamp `json:"time"`
	Version   string         `json:"version"`  // of the program that examined
	Healthy   bool           `json:"healthy"`  // nothing is worse than a notice
	Findings  []Finding      `json:"findings"` // worst first
	Unchecked []Unchecked    `json:"unchecked"`
}

// Count gives how many findings have a severity.
func (r Report) Count(severity health.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// Gateway is what a running gateway answers. Its methods give a fault.Error:
// Unavailable when no gateway answers, Forbidden when this user may not ask it.
type Gateway interface {
	Status(ctx context.Context) (adminapi.Status, error)
	Stations(ctx context.Context) ([]adminapi.Station, error)
	VerifyJournal(ctx context.Context) (adminapi.Verdict, error)
	// Database has NotFound also where the gateway is too old to be asked.
	Database(ctx context.Context) (adminapi.Database, error)
}

// Config is what an examination needs.
type Config struct {
	Machine machine.Machine
	File    string    // the configuration file that was named, or ""
	Socket  string    // the gateway's socket that was named, or ""
	Environ []string  // in the form of [os.Environ]
	Version string    // of this program
	Built   time.Time // when this program was made; zero where unknown
	Deep    bool      // whether the whole journal is verified, which takes its time

	Connect func(socket string) Gateway

	// Files reads the configuration, Database and Journal look at the file of the
	// database of a gateway that does not run, Read returns the content of a file in the data
	// directory. Nil: [config.Files], [sqlite.CheckFile], [sqlite.VerifyFile] and what
	// Machine reads.
	Files    func(path string, environ []string) ([]config.File, error)
	Database func(ctx context.Context, path string) (sqlite.FileState, error)
	Journal  func(ctx context.Context, path string) (journal.Verdict, error)
	Read     func(ctx context.Context, path string) ([]byte, error)
}

// complete sets what is nil.
func (c Config) complete() Config {
	if c.Files == nil {
		c.Files = config.Files
	}
	if c.Database == nil {
		c.Database = sqlite.CheckFile
	}
	if c.Journal == nil {
		c.Journal = sqlite.VerifyFile
	}
	if c.Read == nil {
		c.Read = func(_ context.Context, path string) ([]byte, error) { return c.Machine.Read(path) }
	}
	return c
}

// check is one thing to look at.
type check struct {
	name  string
	limit time.Duration
	do    func(ctx context.Context, p *patient, s *sheet)
}

const (
	// checkLimit is how long a check may take; those that wait for the database have
	// databaseLimit, a deep one deepLimit.
	checkLimit    = 10 * time.Second
	databaseLimit = 30 * time.Second
	deepLimit     = 30 * time.Minute
)

// checks are all checks, in the order in which a report names them.
func checks(deep bool) []check {
	database := databaseLimit
	if deep {
		database = deepLimit
	}
	return []check{
		{"data", checkLimit, checkData}, // first: much of the rest follows from it
		{"gateway", checkLimit, checkGateway},
		{"first boot", checkLimit, checkFirstBoot},
		{"configuration", checkLimit, checkConfiguration},
		{"ports", checkLimit, checkPorts},
		{"disk", checkLimit, checkDisk},
		{"wear", checkLimit, checkWear},
		{"database", database, checkDatabase},
		{"clock", database, checkClock},
		{"certificate", checkLimit, checkCertificate},
		{"service", checkLimit, checkService},
		{"memory", checkLimit, checkMemory},
		{"stations", checkLimit, checkStations},
		{"cloud", checkLimit, checkCloud},
	}
}

// Examine looks at everything, all at once. It takes no longer than the longest
// check may.
func Examine(ctx context.Context, cfg Config) Report {
	p := admit(ctx, cfg.complete())
	all := checks(cfg.Deep)
	sheets := make([]chan *sheet, len(all))
	for i, c := range all {
		sheets[i] = make(chan *sheet, 1)
		go func() { sheets[i] <- c.run(ctx, p) }()
	}
	r := Report{Time: site.At(cfg.Machine.Now()), Version: cfg.Version, Findings: []Finding{}, Unchecked: []Unchecked{}}
	for i := range all {
		s := <-sheets[i]
		r.Findings = append(r.Findings, s.findings...)
		r.Unchecked = append(r.Unchecked, s.unchecked...)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	r.Healthy = r.Count(health.Fatal)+r.Count(health.Warning) == 0
	return r
}

// run does the check within its time. One that a hanging disk holds is left behind.
func (c check) run(ctx context.Context, p *patient) *sheet {
	s, done := within(ctx, c.limit, func(ctx context.Context) *sheet {
		s := &sheet{check: c.name}
		c.do(ctx, p, s)
		return s
	})
	if !done {
		s = &sheet{check: c.name}
		s.skip("it took longer than "+c.limit.String()+": the disk or the system may hang", "dmesg | tail -n 50")
	}
	return s
}

// killGrace is how long after its time a function may still come to its own end.
const killGrace = 2 * time.Second

// within calls f and waits for it no longer than limit allows; f goes on alone where
// even the end of its context does not end it.
func within[T any](ctx context.Context, limit time.Duration, f func(context.Context) T) (result T, done bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	ended := make(chan T, 1)
	go func() {
		defer cancel()
		ended <- f(ctx)
	}()
	grace := time.NewTimer(limit + killGrace)
	defer grace.Stop()
	select {
	case result = <-ended:
		return result, true
	case <-grace.C:
		return result, false
	}
}

func rank(s health.Severity) int {
	return slices.Index([]health.Severity{health.Fatal, health.Warning, health.Notice, OK}, s)
}
