package timezone_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/timezone"
)

// database gives the zones that Go carries.
func database(t *testing.T) map[string][]byte {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	all := make(map[string][]byte)
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		if all[file.Name], err = io.ReadAll(content); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// The copy is the whole database of the Go that builds this, and nothing else.
func TestEmbedded_isTheDatabase(t *testing.T) {
	want := database(t)
	if len(want) < 400 {
		t.Fatalf("only %d zones", len(want))
	}
	for name, data := range want {
		if got, err := timezone.Embedded(name); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s differs (%v): run go run ./scripts/timezones", name, err)
		}
	}
	for _, name := range []string{"", "Europe", "Europe/Atlantis", "../etc/passwd", "europe/berlin", "Local"} {
		if _, err := timezone.Embedded(name); err == nil {
			t.Errorf("there is a zone %q", name)
		}
	}
}

// A system without any zones knows the hours all the same.
func TestLoad_bareSystem(t *testing.T) {
	data, err := timezone.Embedded("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocationFromTZData("Europe/Berlin", data)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"2026-07-01T12:00:00Z": "14:00 CEST", "2026-12-01T12:00:00Z": "13:00 CET"} {
		moment, _ := time.Parse(time.RFC3339, at)
		if got := moment.In(berlin).Format("15:04 MST"); got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	for name, want := range map[string]string{"": "UTC", "UTC": "UTC", "Europe/Berlin": "Europe/Berlin", "Local": "Local"} {
		if zone, err := timezone.Load(name); err != nil || zone.String() != want {
			t.Errorf("%q: %v, %v", name, zone, err)
		}
	}
	if _, err := timezone.Load("Europe/Atlantis"); err == nil || !strings.Contains(err.Error(), "Europe/Atlantis") {
		t.Errorf("got %v", err)
	}
}
