// Command mutants changes the code of the packages that guard the doors, one operator at
// a time, and runs each package's own tests: a change that they do not notice (a mutant
// that lives) is a rule that nothing tests. It fails where fewer than 95 % are killed.
//
//	go run ./scripts/mutants [./internal/door/unlock …]
//
// Mutants that change nothing that can be observed are listed in equivalent.txt.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const (
	tool  = "github.com/go-gremlins/gremlins/cmd/gremlins@v0.5.0"
	least = 95 // percent of the mutants that are to be killed
)

// packages are those whose rules must all be tested.
func packages() []string {
	return []string{
		"./internal/door/unlock", "./internal/door/stationlink", "./internal/record/journal", "./internal/access", "./internal/cloud/api",
	}
}

//go:embed equivalent.txt
var equivalent string

// mutant is one change of the code.
type mutant struct{ file, kind, line string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, targets []string) error {
	if len(targets) == 0 {
		targets = packages()
	}
	excused, err := excuses()
	if err != nil {
		return err
	}
	var poor []string
	for _, target := range targets {
		percent, err := judge(ctx, target, excused)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		if percent < least {
			poor = append(poor, target)
		}
	}
	if len(poor) > 0 {
		return fmt.Errorf("fewer than %d %% are killed in %s", least, strings.Join(poor, ", "))
	}
	return nil
}

// excuses reads equivalent.txt: in each line the file, the kind of change, the line of
// code and the reason, separated by tabs.
func excuses() (map[mutant]bool, error) {
	excused := make(map[mutant]bool)
	for i, line := range strings.Split(equivalent, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) != 4 || parts[3] == "" {
			return nil, fmt.Errorf("equivalent.txt:%d: a file, a kind, a line of code and a reason are needed, with tabs between them", i+1)
		}
		excused[mutant{parts[0], parts[1], parts[2]}] = true
	}
	return excused, nil
}

// report is what the tool writes.
type report struct {
	Files []struct {
		Name    string `json:"file_name"`
		Mutants []struct {
			Line   int    `json:"line"`
			Column int    `json:"column"`
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"mutations"`
	} `json:"files"`
}

// judge tries the mutants of one package, prints those that live, and returns how many
// percent are killed.
func judge(ctx context.Context, target string, excused map[mutant]bool) (percent float64, err error) {
	found, err := unleash(ctx, target)
	if err != nil {
		return 0, err
	}
	killed, lived, equal := 0, 0, 0
	for _, f := range found.Files {
		path := filepath.Join(target, f.Name)
		for _, m := range f.Mutants {
			switch m.Status {
			case "KILLED", "TIMED OUT":
				killed++
				continue
			case "LIVED":
			default: // it does not compile, or lies in a condition of a switch, which the tool cannot try
				continue
			}
			code, err := lineOf(path, m.Line)
			if err != nil {
				return 0, err
			}
			if excused[mutant{path, m.Type, code}] {
				equal++
				continue
			}
			lived++
			fmt.Printf("%s:%d:%d: %s %s: %s\n", path, m.Line, m.Column, m.Type, strings.ToLower(m.Status), code)
		}
	}
	percent = 100 * float64(killed) / float64(max(killed+lived, 1))
	fmt.Printf("%s: %d killed, %d lived, %d equivalent: %.1f %%\n", target, killed, lived, equal, percent)
	return percent, nil
}

// unleash runs the tool over a package.
func unleash(ctx context.Context, target string) (found report, err error) {
	folder, err := os.MkdirTemp("", "gatehouse-mutants")
	if err != nil {
		return found, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	out := filepath.Join(folder, "report.json")
	workers := strconv.Itoa(max(runtime.NumCPU()/2, 1))
	cmd := exec.CommandContext(ctx, "go", "run", tool, "unleash", target, "--silent", "--workers", workers, "--timeout-coefficient", "5", "--output", out) //nolint:gosec // our own arguments
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return found, err
	}
	text, err := os.ReadFile(out) //nolint:gosec // in our own folder
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(text, &found)
}

// lineOf returns a line of a file, without the space around it.
func lineOf(path string, line int) (string, error) {
	f, err := os.Open(path) //nolint:gosec // of the package that was asked for
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for range line {
		lines.Scan()
	}
	return strings.TrimSpace(lines.Text()), lines.Err()
}
