package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/install/installation"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

func TestPrintInstalled(t *testing.T) {
	done := installed{
		Changes:   []installation.Change{{Kind: "created", What: "/etc/systemd/system/gatehouse.service"}, {Kind: "started", What: "gatehouse.service"}},
		Listeners: []adminapi.Listener{{Name: "https", Address: "[::]:443", TLS: true}, {Name: "mqtt", Address: "[::]:1883"}},
	}
	path := t.TempDir() + "/setup.issue"
	if err := os.WriteFile(path, []byte("\nSetup code: 1234-5678\x1b[31m\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printInstalled(&lines{w: &out}, done, setupText(path))
	want := `created  /etc/systemd/system/gatehouse.service
started  gatehouse.service

The gateway is ready, and starts with the system.
Listens on  https  [::]:443 (TLS)
            mqtt   [::]:1883

Setup code: 1234-5678[31m

Next: "sudo gatehouse status" says how it is, "sudo gatehouse doctor" what could be better.
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if text := setupText(path + ".missing"); text != "" {
		t.Errorf("without a file: %q", text)
	}
}

func TestSiteFile(t *testing.T) {
	boot, etc := t.TempDir(), t.TempDir()
	if found := siteFile([]string{boot, etc}); found != "" {
		t.Errorf("found %s", found)
	}
	for _, path := range []string{etc + "/gatehouse-site.toml", boot + "/gatehouse-site.toml.txt"} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if found := siteFile([]string{boot, etc}); found != path {
			t.Errorf("found %q, want %s", found, path)
		}
	}
}

func TestApp_printService(t *testing.T) {
	state := installation.State{
		Installed: "service install", Running: true, State: "active", Status: "Ready: 3 stations, 2 online",
		Since: site.At(time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)), Enabled: true, Sockets: true, PID: 42,
	}
	var out strings.Builder
	testApp().printService(&lines{w: &out}, state)
	want := `Service                 running since 2026-11-21 08:00:00 +0100 (process 42)
It says                 Ready: 3 stations, 2 online
Restarts                0, by systemd since it was last started
Ports                   open
Starts with the system  yes
Installed by            "gatehouse service install"
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The exit status follows from it.
func TestNotRunning(t *testing.T) {
	for want, state := range map[string]installation.State{
		`the service is not installed: run "gatehouse service install"`:                       {Installed: "no", State: "inactive"},
		`the service is stopped: run "gatehouse service start"`:                               {Installed: "package", State: "inactive"},
		"the service is not ready (activating): journalctl --unit=gatehouse.service says why": {Installed: "package", State: "activating"},
	} {
		if err := notRunning(state); err == nil || err.Error() != want {
			t.Errorf("%+v: error %v", state, err)
		}
	}
	if err := notRunning(installation.State{Running: true}); err != nil {
		t.Errorf("error %v", err)
	}
}
