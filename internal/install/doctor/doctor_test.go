package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/install/doctor"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a report with its file; the command line's tests read it too.
func golden(t *testing.T, name string, r doctor.Report) {
	t.Helper()
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; the report is not that of %s (-update writes it anew):\n%s", err, path, got)
	}
}

func TestExamine_healthy(t *testing.T) {
	r := healthy(t).examine(t)
	if got := complaints(r); len(got) > 0 || !r.Healthy {
		t.Errorf("a healthy board is ill: %s", strings.Join(got, "\n"))
	}
	golden(t, "healthy.json", r)
}

// A healthy board has one finding of each check.
func TestExamine_all(t *testing.T) {
	var names []string
	for _, f := range healthy(t).examine(t).Findings {
		names = append(names, f.Check)
	}
	want := []string{"gateway", "configuration", "ports", "service", "update", "data", "disk", "writes", "database"}
	if !slices.Equal(names, want) {
		t.Errorf("the checks are %v", names)
	}
}

// A board with much that is wrong: the worst comes first.
func TestExamine_sick(t *testing.T) {
	b := healthy(t)
	b.stop()
	b.unit()["ActiveState"], b.unit()["Result"], b.unit()["ExecMainStatus"], b.unit()["NRestarts"] = "failed", "exit-code", "1", "12"
	b.outputs["ss"] = `LISTEN 0 100 0.0.0.0:1883 0.0.0.0:* users:(("mosquitto",pid=700,fd=5))` + "\n"
	b.room.Free = 100e6
	b.kernel = false
	r := b.examine(t)
	if r.Healthy || r.Count(health.Fatal) != 2 {
		t.Errorf("the board is %t healthy, with %d fatal findings", r.Healthy, r.Count(health.Fatal))
	}
	golden(t, "sick.json", r)
}

// onHangingDisk runs a test with a healthy board; hang blocks until the test ends.
func onHangingDisk(t *testing.T, test func(t *testing.T, b *board, hang func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer func() {
			close(release)
			synctest.Wait()
		}()
		test(t, healthy(t), func() { <-release })
	})
}

// A check that hangs is reported, and ends the examination.
func TestExamine_hanging(t *testing.T) {
	onHangingDisk(t, func(t *testing.T, b *board, hang func()) {
		m := b.machine()
		m.Space = func(string) (durable.Room, error) { // a disk that heeds no context
			hang()
			return durable.Room{}, nil
		}
		b.cfg.Machine = m
		begin := time.Now()
		got := complaints(b.examine(t))
		want := []string{
			"skipped disk: it took longer than 30s: the disk or the system may hang > dmesg | tail -n 50",
			"skipped writes: not checked, because disk hangs > ",
			"skipped database: not checked, because disk hangs > ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("complaints: %s", strings.Join(got, "\n"))
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// A configuration that cannot be read, because the disk hangs, does not hang the doctor.
func TestExamine_hangingConfiguration(t *testing.T) {
	onHangingDisk(t, func(t *testing.T, b *board, hang func()) {
		b.cfg.Files = func(string, []string) ([]config.File, error) {
			hang()
			return nil, nil
		}
		got := complaints(b.examine(t))
		if len(got) != 10 || got[0] != "skipped preparation: it took longer than 30s: the disk or the system may hang > dmesg | tail -n 50" {
			t.Errorf("complaints: %s", strings.Join(got, "\n"))
		}
	})
}

// A gateway that hangs, and a systemd that does, cost their time only, and are never taken
// for one that is missing.
func TestExamine_nothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := healthy(t)
		m := b.machine()
		m.Run = func(ctx context.Context, _ string, _ ...string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		b.cfg.Machine = m
		b.silent, b.kernel = context.DeadlineExceeded, false
		begin := time.Now()
		got := complaints(b.examine(t))
		want := []string{
			"fatal gateway: The gateway runs but does not answer > systemctl restart gatehouse",
			noPorts,
			"skipped service: systemd could not be asked: context deadline exceeded > systemctl status gatehouse",
		}
		if !slices.Equal(got, want) {
			t.Errorf("complaints: %s", strings.Join(got, "\n"))
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestOutage(t *testing.T) {
	b := healthy(t)
	b.stop()
	b.unit()["ActiveState"], b.unit()["Result"], b.unit()["ExecMainStatus"] = "failed", "exit-code", "1"
	ask := func(cfg doctor.Config) string {
		cfg.Machine = b.machine()
		return doctor.Outage(t.Context(), cfg)
	}
	want := "The gateway has failed, and systemd has given it up (gatehouse.service is failed (dead), enabled; its last end was exit-code, status 1): " +
		"journalctl -u gatehouse -n 50; then systemctl restart gatehouse; gatehouse doctor has more"
	if got := ask(doctor.Config{}); got != want {
		t.Errorf("outage: %s", got)
	}
	for _, named := range []doctor.Config{{Socket: "x.sock"}, {File: "x.toml"}, {Environ: []string{"GATEHOUSE_DATA=/x"}}} {
		if got := ask(named); got != "" {
			t.Errorf("systemd is asked about another gateway: %s", got)
		}
	}
	b.withoutSystemd()
	if got := ask(doctor.Config{}); got != "" {
		t.Errorf("without systemd: %s", got)
	}
}

// A gateway that is named is not the one of the service, unless its file is.
func TestExamine_named(t *testing.T) {
	for file, want := range map[string][]string{
		"/etc/gatehouse/gatehouse.toml": {stopped},
		"mine.toml": {
			"fatal gateway: The gateway does not run > gatehouse serve",
			"notice service: The gateway is no service: nothing starts it with the machine, or restarts it when it ends > sudo gatehouse service install",
		},
	} {
		b := healthy(t)
		b.stop()
		b.cfg.File = file
		if got := complaints(b.examine(t)); !slices.Equal(got, want) {
			t.Errorf("%s: %s", file, strings.Join(got, "\n"))
		}
	}
}
