package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// campaigns are the steps of "make campaign". COUNT sets the number of repetitions, FOR the
// duration.
func campaigns() []step {
	return []step{
		{"flakes", flakes},
		{"torture", lastWords(inOrder(buildBinary(nextSchema), goTest([]string{"GATEHOUSETEST_TORTURE=1"}, "-vet=off", "-count=1", "-timeout=6h", attacks)))},
		{"kills", lastWords(inOrder(buildBinary(nextSchema), goTest([]string{"GATEHOUSETEST_KILLS=" + count(1000)}, "-vet=off", "-count=1", "-timeout=0",
			"-run=^TestAttack_killUnderLoad$", attacks)))},
		{"cuts", lastWords(inOrder(buildBinary(nextSchema), goTest([]string{"GATEHOUSETEST_CUTS=" + count(500)}, "-vet=off", "-count=1", "-timeout=0",
			"-run="+everyCut, brokers)))},
		{"frames", lastWords(inOrder(buildBinary(), goTest([]string{"GATEHOUSETEST_FRAMES=1"}, "-vet=off", "-count=1", timeout, "-run=^TestFrames", browser)))},
		{"fuzz", lastWords(command(nil, "scripts/fuzz", duration("10m")))},
		{"fleet", lastWords(command(nil, "go", "run", "./scripts/fleet"))},
		{"mutants", lastWords(command(nil, "go", "run", "./scripts/mutants"))},
		{"image-test", lastWords(inOrder(command(nil, "scripts/image"), command(nil, "go", "run", "./scripts/imagetest", "-cuts", count(300))))},
	}
}

// count returns the number of repetitions: COUNT, or the usual one.
func count(usual int) string {
	if text := os.Getenv("COUNT"); text != "" {
		return text
	}
	return strconv.Itoa(usual)
}

// duration returns how long a campaign runs: FOR, or the usual time.
func duration(usual string) string {
	if text := os.Getenv("FOR"); text != "" {
		return text
	}
	return usual
}

// lastWords is a campaign whose report has the last lines of its output: its figures.
func lastWords(do func(context.Context, *result) error) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		err := do(ctx, r)
		var lines []string
		for line := range figures(r.path) {
			lines = append(lines, line)
		}
		r.summary = strings.Join(lines[max(0, len(lines)-20):], "\n")
		return err
	}
}

// figures yields the lines of a file that say something: no empty ones, and no line of go
// test about a test that began or went on.
func figures(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		file, err := os.Open(path) //nolint:gosec // of a step
		if err != nil {
			return
		}
		defer func() { _ = file.Close() }()
		for lines := longLines(file); lines.Scan(); {
			text := lines.Text()
			if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "=== ") {
				continue
			}
			if !yield(fmt.Sprint("  ", text)) {
				return
			}
		}
	}
}
