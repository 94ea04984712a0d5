package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// events is what go test -json prints of a package with a test that passes, one that is
// skipped, one whose subtest fails, and of a package that does not compile.
const events = `{"Action":"start","Package":"gatehouse/a"}
{"Action":"run","Package":"gatehouse/a","Test":"TestGood"}
{"Action":"pass","Package":"gatehouse/a","Test":"TestGood"}
{"Action":"output","Package":"gatehouse/a","Test":"TestRoot","Output":"    a_test.go:7: needs root\n"}
{"Action":"skip","Package":"gatehouse/a","Test":"TestRoot"}
{"Action":"output","Package":"gatehouse/a","Test":"TestBad/late","Output":"    a_test.go:9: it opened late\n"}
{"Action":"fail","Package":"gatehouse/a","Test":"TestBad/late"}
{"Action":"fail","Package":"gatehouse/a","Test":"TestBad"}
{"Action":"fail","Package":"gatehouse/a"}
{"Action":"build-output","ImportPath":"gatehouse/b [gatehouse/b.test]","Output":"b.go:1: no such name\n"}
{"Action":"build-fail","ImportPath":"gatehouse/b [gatehouse/b.test]"}
{"Action":"fail","Package":"gatehouse/b","FailedBuild":"gatehouse/b [gatehouse/b.test]"}
{"Action":"output","Package":"gatehouse/c","Test":"TestSlow","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"gatehouse/c"}
{"Action":"build-output","ImportPath":"gatehouse/e","Output":"e.go:1: no such type\n"}
{"Action":"build-fail","ImportPath":"gatehouse/e"}
{"Action":"fail","Package":"gatehouse/d","FailedBuild":"gatehouse/e"}
not an event
`

func TestCollector(t *testing.T) {
	var log strings.Builder
	var counted tests
	c := collector{log: &log, tests: &counted, outputs: map[[2]string][]string{}}
	for line := range strings.Lines(events) {
		c.take([]byte(strings.TrimSuffix(line, "\n")))
	}
	if counted.passed != 1 || counted.reasons() != "needs root (1)" || c.done != 4 {
		t.Errorf("passed %d, skipped %q, packages %d", counted.passed, counted.reasons(), c.done)
	}
	var failed []string
	for _, f := range counted.failures {
		failed = append(failed, f.name()+": "+strings.TrimSpace(f.text()))
	}
	want := []string{
		"TestBad/late in gatehouse/a: a_test.go:9: it opened late", "gatehouse/b: b.go:1: no such name", "gatehouse/c: panic: test timed out",
		"gatehouse/d: e.go:1: no such type",
	}
	if strings.Join(failed, "\n") != strings.Join(want, "\n") {
		t.Errorf("failed:\n%s\nwant:\n%s", strings.Join(failed, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(log.String(), "not an event\n") || !strings.Contains(log.String(), "it opened late") {
		t.Errorf("the log has lost something:\n%s", log.String())
	}
}

// steps are a step that passes, one that fails and another that passes.
func steps(ran *[]string) []step {
	does := func(name string, err error) step {
		return step{name, func(_ context.Context, r *result) error {
			*ran = append(*ran, name)
			_, _ = io.WriteString(r.log, "output of "+name+"\n")
			return err
		}}
	}
	return []step{does("good", nil), does("bad", errors.New("broken")), does("last", nil)}
}

func TestRunner(t *testing.T) {
	for _, test := range []struct {
		goOn bool
		want string
	}{{false, "good bad"}, {true, "good bad last"}} {
		var ran []string
		r := runner{verb: "check", logs: filepath.Join(t.TempDir(), "logs"), goOn: test.goOn}
		err := r.run(t.Context(), steps(&ran))
		if err == nil || err.Error() != "FAILED: bad" {
			t.Errorf("it ends with %v", err)
		}
		if got := strings.Join(ran, " "); got != test.want {
			t.Errorf("steps that ran: %s, want %s", got, test.want)
		}
		log, err := os.ReadFile(filepath.Join(r.logs, "bad.log"))
		if err != nil || string(log) != "output of bad\n" {
			t.Errorf("the output is %q, %v", log, err)
		}
		report, err := os.ReadFile(filepath.Join(r.logs, "report.txt"))
		if err != nil || !strings.Contains(string(report), "bad   FAILED") {
			t.Errorf("the report is\n%s%v", report, err)
		}
	}
	var ran []string
	r := runner{verb: "check", logs: t.TempDir()}
	if err := r.run(t.Context(), steps(&ran)[:1]); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	var ran []string
	chosen, err := choose(steps(&ran), []string{"last", "good"})
	if err != nil || len(chosen) != 2 || chosen[0].name != "last" {
		t.Errorf("chosen: %v, %v", chosen, err)
	}
	if _, err := choose(steps(&ran), []string{"lats"}); err == nil || !strings.Contains(err.Error(), "good, bad, last") {
		t.Errorf("a typo: %v", err)
	}
}

// A pattern with a name that no test has would run less than it says.
func TestTiers_names(t *testing.T) {
	var text strings.Builder
	for _, pattern := range []string{attacks, brokers} {
		files, err := filepath.Glob("../../" + pattern + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(content)
		}
	}
	for _, name := range append(quickAttacks(), strings.Trim(everyCut, "^$"), "TestAttack_killUnderLoad") {
		if !strings.Contains(text.String(), "\nfunc "+name+"(") {
			t.Errorf("there is no test %s", name)
		}
	}
}

func TestFigures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("=== RUN   TestX\n\n    x_test.go:1: 1000 kills\n--- PASS: TestX (1s)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := ""
	for line := range figures(path) {
		got += line + "\n"
	}
	if want := "      x_test.go:1: 1000 kills\n  --- PASS: TestX (1s)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
