package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tests counts tests and subtests.
type tests struct {
	passed   int
	failures []failure
	why      map[string]int // skipped tests, by the reason
}

// failure is a test that failed, or a package that could not be tested.
type failure struct {
	pkg, test string
	output    []string
}

func (f failure) name() string {
	if f.test == "" {
		return f.pkg
	}
	return f.test + " in " + f.pkg
}

// text is its output, without the middle where that is long.
func (f failure) text() string {
	if len(f.output) <= maxLines {
		return strings.Join(f.output, "")
	}
	half := maxLines / 2
	return strings.Join(f.output[:half], "") + "    …\n" + strings.Join(f.output[len(f.output)-half:], "")
}

func (t *tests) ran() bool { return t.passed+len(t.failures)+t.skipped() > 0 }

func (t *tests) skipped() (n int) {
	for _, one := range t.why {
		n += one
	}
	return n
}

func (t *tests) add(more *tests) {
	t.passed += more.passed
	t.failures = append(t.failures, more.failures...)
	if t.why == nil {
		t.why = make(map[string]int)
	}
	for reason, n := range more.why {
		t.why[reason] += n
	}
}

// reasons lists why tests were skipped: "needs nft (2), needs root (1)".
func (t *tests) reasons() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(t.why)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", reason, t.why[reason]))
	}
	return strings.Join(parts, ", ")
}

// brief is a line's end about the tests of a step.
func (t *tests) brief() string {
	if !t.ran() {
		return ""
	}
	text := fmt.Sprintf(", %d tests", t.passed+len(t.failures))
	if n := t.skipped(); n > 0 {
		text += fmt.Sprintf(", %d skipped", n)
	}
	return text
}

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// collector reads the events of "go test -json", writes them to the log as people read
// them, and counts.
type collector struct {
	log     io.Writer
	tests   *tests
	outputs map[[2]string][]string // by package and test
	done    int                    // packages
}

// take is called with each line.
func (c *collector) take(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(c.log, "%s\n", line)
		return
	}
	pkg := e.Package
	if pkg == "" {
		pkg, _, _ = strings.Cut(e.ImportPath, " ") // "path [path.test]"
	}
	key := [2]string{pkg, e.Test}
	switch e.Action {
	case "output", "build-output":
		_, _ = io.WriteString(c.log, e.Output)
		c.outputs[key] = append(c.outputs[key], e.Output)
		return
	case "pass":
		if e.Test != "" {
			c.tests.passed++
		}
	case "skip":
		if e.Test != "" {
			c.skip(c.outputs[key])
		}
	case "fail":
		output := c.outputs[key]
		if e.Test == "" { // also of the build, and of tests that a crash or a timeout has ended
			failed, _, _ := strings.Cut(e.FailedBuild, " ")
			for other, lines := range c.outputs {
				if other != key && (other[0] == pkg || other == [2]string{failed, ""}) {
					output = append(output, lines...)
				}
			}
		}
		c.fail(pkg, e.Test, output)
	default:
		return
	}
	if e.Test == "" {
		c.done++
	} else {
		delete(c.outputs, key)
	}
}

var reason = regexp.MustCompile(`needs .*`)

func (c *collector) skip(output []string) {
	why := reason.FindString(strings.Join(output, ""))
	if why == "" {
		why = "without a reason"
	}
	if c.tests.why == nil {
		c.tests.why = make(map[string]int)
	}
	c.tests.why[why]++
}

// fail notes a failure: a test, or a package without a test that failed. A test whose
// subtest failed is no failure of its own.
func (c *collector) fail(pkg, test string, output []string) {
	for _, f := range c.tests.failures {
		if f.pkg == pkg && (test == "" || strings.HasPrefix(f.test, test+"/")) {
			return
		}
	}
	c.tests.failures = append(c.tests.failures, failure{pkg, test, output})
}

// goTest is a step that runs go test with these arguments and more variables for it.
func goTest(variables []string, args ...string) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		before := r.tests.passed
		c := &collector{log: r.log, tests: &r.tests, outputs: make(map[[2]string][]string)}
		cmd := newCommand(ctx, variables, append([]string{"go", "test", "-json"}, args...)...)
		cmd.Stderr = r.log
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				c.take(bytes.TrimSuffix(line, []byte("\n")))
				r.progress.Store(fmt.Sprintf("%d packages done", c.done))
			}
			if err != nil {
				break
			}
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("go test: %w", err)
		}
		if r.tests.passed == before {
			return errors.New("no test ran")
		}
		if _, ok := r.tests.why["without a reason"]; ok {
			return errors.New("a test was skipped without a reason")
		}
		return nil
	}
}

// command is a step that runs a program with more variables for it.
func command(variables []string, argv ...string) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		cmd := newCommand(ctx, variables, argv...)
		cmd.Stdout, cmd.Stderr = r.log, r.log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
		return nil
	}
}

// inOrder is a step of several parts.
func inOrder(parts ...func(context.Context, *result) error) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		for _, part := range parts {
			if err := part(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// newCommand returns a program in a process group of its own, which is ended as a whole
// with the context.
func newCommand(ctx context.Context, variables []string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // our own arguments
	cmd.Env = append(os.Environ(), variables...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
