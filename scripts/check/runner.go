package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// step is one part of a tier.
type step struct {
	name string
	do   func(ctx context.Context, r *result) error
}

// result holds the outcome, the output and the duration of a step, which sets it.
type result struct {
	name string
	log  io.Writer // the step's whole output
	path string    // the file with that
	took time.Duration
	err  error

	tests    tests
	progress atomic.Value // a string: how far it is
	summary  string       // a campaign's own last words; may be ""
}

// runner runs steps one after the other.
type runner struct {
	verb, logs string
	goOn       bool // whether a failed step does not end the run
	results    []*result
}

// beat is the time between two lines of a step that takes long.
const beat = 30 * time.Second

func (r *runner) run(ctx context.Context, steps []step) error {
	if err := os.RemoveAll(r.logs); err != nil {
		return err
	}
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return err
	}
	began := time.Now()
	for _, s := range steps {
		done, err := r.try(ctx, s)
		if err != nil {
			return err
		}
		r.results = append(r.results, done)
		if ctx.Err() != nil || done.err != nil && !r.goOn {
			break
		}
	}
	report := r.report(len(steps), time.Since(began))
	fmt.Print("\n", report)
	if err := os.WriteFile(filepath.Join(r.logs, "report.txt"), []byte(report), 0o644); err != nil { //nolint:gosec // for everybody
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return r.verdict()
}

// try runs one step.
func (r *runner) try(ctx context.Context, s step) (*result, error) {
	done := &result{name: s.name, path: filepath.Join(r.logs, s.name+".log")}
	file, err := os.Create(done.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	done.log = file
	fmt.Printf("%s: %s …\n", r.verb, s.name)
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- s.do(ctx, done) }()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case done.err = <-ended:
			waiting = false
		case <-tick.C:
			text := seconds(time.Since(began))
			if far, ok := done.progress.Load().(string); ok {
				text += ", " + far
			}
			fmt.Printf("%s: %s: %s\n", r.verb, s.name, text)
		}
	}
	done.took = time.Since(began)
	fmt.Printf("%s: %s: %s after %s%s\n", r.verb, s.name, done.verdict(), seconds(done.took), done.tests.brief())
	return done, nil
}

func (r *result) verdict() string {
	if r.err != nil {
		return "FAILED"
	}
	return "passed"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// report is the table of all steps, with the number of tests in one last line.
func (r *runner) report(wanted int, took time.Duration) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "step\tresult\tseconds\ttests\tfailed\tskipped\toutput")
	var all tests
	for _, s := range r.results {
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%s\t%s\t%s\t%s\n", s.name, s.verdict(), s.took.Seconds(),
			number(s.tests.passed+len(s.tests.failures)), number(len(s.tests.failures)), number(s.tests.skipped()), s.path)
		all.add(&s.tests)
	}
	_ = table.Flush()
	for _, s := range r.results {
		if s.summary != "" {
			fmt.Fprintf(&text, "\n%s:\n%s\n", s.name, strings.TrimRight(s.summary, "\n"))
		}
	}
	fmt.Fprintf(&text, "\n%d of %d steps in %s\n", len(r.results), wanted, seconds(took))
	if all.ran() {
		fmt.Fprintf(&text, "%d passed, %d failed, %d skipped\n", all.passed, len(all.failures), all.skipped())
	}
	if all.skipped() > 0 {
		fmt.Fprintf(&text, "skipped: %s\n", all.reasons())
	}
	return text.String()
}

// number formats a count; "-" for none.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// verdict prints how the steps that failed did, and returns their names as an error.
func (r *runner) verdict() error {
	var failed []string
	for _, s := range r.results {
		if s.err == nil {
			continue
		}
		failed = append(failed, s.name)
		fmt.Printf("\n--- %s: %v\n", s.name, s.err)
		if len(s.tests.failures) == 0 {
			fmt.Print(tail(s.path))
		}
		for i, f := range s.tests.failures {
			if i == maxShown {
				fmt.Printf("… and %d more\n", len(s.tests.failures)-i)
				break
			}
			fmt.Printf("%s\n", f.text())
		}
		for _, f := range s.tests.failures {
			fmt.Printf("FAILED: step %s, %s\n", s.name, f.name())
		}
		fmt.Printf("its whole output: %s\n", s.path)
	}
	if len(failed) > 0 {
		return fmt.Errorf("FAILED: %s", strings.Join(failed, ", "))
	}
	return nil
}

// Bounds of what the terminal shows; the file of the step has the rest.
const (
	maxShown = 5  // failures
	maxLines = 60 // lines of each failure
)

// longLines scans lines of up to 16 MiB.
func longLines(from io.Reader) *bufio.Scanner {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 16<<20)
	return scanner
}

// tail returns the last lines of a file.
func tail(path string) string {
	file, err := os.Open(path) //nolint:gosec // of a step
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	var lines []string
	for scanner := longLines(file); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if len(lines) > maxLines {
			lines = slices.Delete(lines, 0, 1)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
