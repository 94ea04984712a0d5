package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/install/doctor"
)

var rewrite = flag.Bool("update", false, "write the golden files anew")

// reportOf reads a report that the tests of package doctor keep.
func reportOf(t *testing.T, name string) doctor.Report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "install", "doctor", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r doctor.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestApp_printReport(t *testing.T) {
	for _, name := range []string{"healthy", "sick"} {
		var out strings.Builder
		testApp().printReport(&lines{w: &out}, reportOf(t, name))
		path := filepath.Join("testdata", "doctor", name+".txt")
		if *rewrite {
			if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || out.String() != string(want) {
			t.Errorf("%v; the text is not that of %s (-update writes it anew):\n%s", err, path, out.String())
		}
	}
}

func TestUnhealthy(t *testing.T) {
	if err := unhealthy(reportOf(t, "healthy")); err != nil {
		t.Errorf("a healthy gateway: %v", err)
	}
	want := "2 fatal findings, 1 warning, 1 notice: follow the report, and run it again"
	if err := unhealthy(reportOf(t, "sick")); err == nil || err.Error() != want {
		t.Errorf("a sick gateway: %v", err)
	}
	only := doctor.Report{Healthy: true, Findings: []doctor.Finding{{Severity: health.Notice}}}
	if err := unhealthy(only); err != nil || tally(only) != "1 notice" {
		t.Errorf("a notice: %v, %s", err, tally(only))
	}
}

// What others chose reaches no terminal as it is.
func TestApp_printReport_printable(t *testing.T) {
	var out strings.Builder
	testApp().printReport(&lines{w: &out}, doctor.Report{Findings: []doctor.Finding{
		{Check: "stations", Severity: health.Warning, Summary: "s", Evidence: []string{"station 1 \x1b[31mred"}, Fix: "m"},
	}})
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("an escape sequence: %q", out.String())
	}
}
