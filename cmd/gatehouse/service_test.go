package main

import (
	"os"
	"strings"
	"testing"

	"gatehouse/internal/install/service"
	"gatehouse/internal/web/adminapi"
)

func TestPrintReady(t *testing.T) {
	listeners := []adminapi.Listener{{Name: "https", Address: "[::]:443", TLS: true}, {Name: "mqtt", Address: "[::]:1883"}}
	boot, etc := t.TempDir(), t.TempDir()
	const head, tail = `The gateway is ready, and starts with the system.
Listens on  https  [::]:443 (TLS)
            mqtt   [::]:1883

`, `
Next: "sudo gatehouse status" shows its state, "sudo gatehouse doctor" what could be better.
`
	for _, step := range []struct{ file, setup, want string }{
		{"", "Setup code: 1234-5678\x1b[31m", "Setup code: 1234-5678\uFFFD[31m\n"},
		{etc + "/gatehouse-result.txt", "", "A site file was applied; the result is in " + etc + "/gatehouse-result.txt\n"},
		{boot + "/gatehouse-site.toml.txt", "", boot + "/gatehouse-site.toml.txt is applied now, which takes up to a few minutes. The result is written to gatehouse-result.txt beside it.\n"},
	} {
		if step.file != "" {
			if err := os.WriteFile(step.file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		printReady(&lines{w: &out}, listeners, step.setup, []string{boot, etc})
		if want := head + step.want + tail; out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	}
}

func TestPrintService(t *testing.T) {
	state := service.State{Installed: "service install", Running: true, State: "active", Enabled: true, Sockets: true}
	var out strings.Builder
	printService(&lines{w: &out}, state)
	want := `Service                 running
Ports                   open
Starts with the system  yes
Installed by            service install
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The exit status follows from it.
func TestNotRunning(t *testing.T) {
	for want, state := range map[string]service.State{
		`the service is not installed: run "gatehouse service install"`:                  {Installed: "no", State: "inactive"},
		`the service is stopped: run "gatehouse service start"`:                          {Installed: "package", State: "inactive"},
		"the service is not ready (activating): see journalctl --unit=gatehouse.service": {Installed: "package", State: "activating"},
	} {
		if err := notRunning(state); err == nil || err.Error() != want {
			t.Errorf("%+v: error %v", state, err)
		}
	}
	if err := notRunning(service.State{Running: true}); err != nil {
		t.Errorf("error %v", err)
	}
}
