package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// load is what the machine does beside the tests.
type load struct {
	name string
	busy int  // processes that only calculate
	one  bool // one processor, as taskset sets it
}

// loads are the three under which no test may ever fail; LOAD picks some of them.
func loads() ([]load, error) {
	all := []load{
		{name: "alone"},
		{name: "busy", busy: 4},
		{name: "one", one: true},
	}
	var picked []load
	for _, name := range strings.Fields(os.Getenv("LOAD")) {
		i := slices.IndexFunc(all, func(l load) bool { return l.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no LOAD=%s: alone, busy or one", name)
		}
		picked = append(picked, all[i])
	}
	if picked == nil {
		picked = all
	}
	return picked, nil
}

// trial is the tests of one package, compiled once for all runs.
type trial struct {
	pkg, folder, binary string
	took                time.Duration // in the run before: the longest begin first
}

// flaky is a test that failed, and when.
type flaky struct{ load, run, test, output string }

// flakes runs every test in another order each time, ten times under each load, and names
// each that ever failed. Containers, browser and emulated board take long and run once under
// each load.
func flakes(ctx context.Context, r *result) error {
	runs, err := strconv.Atoi(count(10))
	if err != nil {
		return fmt.Errorf("COUNT is no number: %w", err)
	}
	under, err := loads()
	if err != nil {
		return err
	}
	f := &flakeHunt{r: r, folder: filepath.Join("build", "flakes")}
	if err := f.compile(ctx); err != nil {
		return err
	}
	defer func() { r.summary = f.table() }()
	for _, l := range under {
		if err := f.under(ctx, l, runs); err != nil {
			return err
		}
	}
	if len(f.found) > 0 {
		return fmt.Errorf("%d times a test failed", len(f.found))
	}
	return nil
}

// flakeHunt is one run of the campaign.
type flakeHunt struct {
	r      *result
	folder string
	trials []*trial
	rows   [][]string

	mu    sync.Mutex // guards found
	found []flaky
}

// compile compiles the tests of every package, the gateway, and the image.
func (f *flakeHunt) compile(ctx context.Context) error {
	if err := os.RemoveAll(f.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return err
	}
	list, err := packages(ctx, f.r, withTests, boards, browser)
	if err != nil {
		return err
	}
	for _, pkg := range list {
		folder := strings.TrimPrefix(pkg, "gatehouse/")
		binary, err := filepath.Abs(filepath.Join(f.folder, strings.ReplaceAll(folder, "/", "-")+".test"))
		if err != nil {
			return err
		}
		if err := command(nil, "go", "test", "-c", "-vet=off", "-o", binary, pkg)(ctx, f.r); err != nil {
			return err
		}
		f.trials = append(f.trials, &trial{pkg: pkg, folder: folder, binary: binary})
	}
	return buildBinary(nextSchema)(ctx, f.r)
}

// under does all runs under one load.
func (f *flakeHunt) under(ctx context.Context, l load, runs int) error {
	if l.one {
		release, err := onOneProcessor()
		if err != nil {
			return err
		}
		defer release()
	}
	busy, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for range l.busy {
		cmd := newCommand(busy, nil, "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			return err
		}
		others.Go(func() { _ = cmd.Wait() })
	}
	for n := range runs {
		f.record(l, "tests "+strconv.Itoa(n+1), func() int { return f.all(ctx, l, strconv.Itoa(n+1)) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for _, heavy := range f.heavy() {
		f.record(l, heavy.name, func() int { return f.once(ctx, l, heavy) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// record does one run and notes its row in the table.
func (f *flakeHunt) record(l load, what string, do func() (tests int)) {
	before, began := len(f.found), time.Now()
	n := do()
	failed := len(f.found) - before
	row := []string{l.name, what, number(n), strconv.Itoa(failed), seconds(time.Since(began))}
	f.rows = append(f.rows, row)
	text := fmt.Sprintf("%s, %s: %s failed, %s", row[0], row[1], row[3], row[4])
	f.r.progress.Store(text)
	fmt.Println("flakes: " + text)
	for _, one := range f.found[before:] {
		fmt.Printf("flakes: %s, %s: FAILED %s: %s\n", one.load, one.run, one.test, one.output)
	}
}

// all runs the tests of every package, as many packages at once as the machine has
// processors, and returns the number of tests.
func (f *flakeHunt) all(ctx context.Context, l load, run string) (tests int) {
	queue := make(chan *trial, len(f.trials))
	for _, t := range f.trials {
		queue <- t
	}
	close(queue)
	var workers sync.WaitGroup
	var mu sync.Mutex // guards tests
	for range runtime.NumCPU() {
		workers.Go(func() {
			for t := range queue {
				n := f.try(ctx, l, run, t)
				mu.Lock()
				tests += n
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	f.slowest()
	return tests
}

// slowest notes which packages took longest: what they wait for is worth a look.
func (f *flakeHunt) slowest() {
	slices.SortStableFunc(f.trials, func(a, b *trial) int { return int(b.took - a.took) })
	for _, t := range f.trials[:min(10, len(f.trials))] {
		fmt.Fprintf(f.r.log, "%s took %s\n", t.pkg, seconds(t.took))
	}
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	passedTest = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
)

// try runs the tests of one package in an order of their own.
func (f *flakeHunt) try(ctx context.Context, l load, run string, t *trial) (tests int) {
	began := time.Now()
	cmd := newCommand(ctx, nil, t.binary, "-test.v", "-test.shuffle=on", "-test.timeout=60m", "-test.parallel=4")
	cmd.Dir = t.folder
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	t.took = time.Since(began)
	passed := len(passedTest.FindAll(out.Bytes(), -1))
	if err == nil || ctx.Err() != nil {
		return passed
	}
	failed := failedTest.FindAllStringSubmatch(out.String(), -1)
	if len(failed) == 0 {
		failed = [][]string{{"", err.Error()}}
	}
	for _, match := range failed {
		f.note(l, run, match[1]+" in "+t.pkg, out.Bytes())
	}
	return passed + len(failed)
}

// note keeps a failure and its output.
func (f *flakeHunt) note(l load, run, test string, output []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := filepath.Join(f.folder, fmt.Sprintf("failure-%d.log", len(f.found)+1))
	if err := os.WriteFile(path, output, 0o644); err != nil { //nolint:gosec // for everybody
		path = err.Error()
	}
	f.found = append(f.found, flaky{l.name, run, test, path})
}

// heavy are the tests that run once under each load: the image is made once before.
func (f *flakeHunt) heavy() []step {
	image := inOrder(func(ctx context.Context, r *result) error {
		if found, _ := filepath.Glob(checkedImage + "/gatehouse_*_arm64.img"); len(found) == 1 {
			return nil
		}
		return command([]string{"GATEHOUSE_IMAGE_DIR=" + checkedImage}, "scripts/image")(ctx, r)
	}, emulatedBoard)
	return []step{
		{"browser", goTest(nil, "-vet=off", "-count=1", "-shuffle=on", timeout, browser)},
		{"containers", containers},
		{"board", image},
	}
}

// once runs one of the heavy ones.
func (f *flakeHunt) once(ctx context.Context, l load, s step) (tests int) {
	path := filepath.Join(f.folder, l.name+"-"+s.name+".log")
	log, err := os.Create(path) //nolint:gosec // in our own folder
	if err != nil {
		f.note(l, "once", s.name, []byte(err.Error()))
		return 0
	}
	defer func() { _ = log.Close() }()
	part := &result{name: s.name, log: log}
	err = s.do(ctx, part)
	for _, failure := range part.tests.failures {
		f.note(l, "once", failure.name(), []byte(strings.Join(failure.output, "")))
	}
	if err != nil && len(part.tests.failures) == 0 && !errors.Is(ctx.Err(), context.Canceled) {
		f.note(l, "once", s.name+": "+err.Error(), []byte(tail(path)))
	}
	return part.tests.passed + len(part.tests.failures)
}

// table is what the campaign has found.
func (f *flakeHunt) table() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "load\trun\ttests\tfailed\ttook")
	for _, row := range f.rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush()
	if len(f.found) == 0 {
		fmt.Fprintln(&text, "\nTests that ever failed: none")
		return text.String()
	}
	fmt.Fprintf(&text, "\nTests that ever failed: %d\n", len(f.found))
	for _, one := range f.found {
		fmt.Fprintf(&text, "%s, run %s: %s: %s\n", one.load, one.run, one.test, one.output)
	}
	return text.String()
}
