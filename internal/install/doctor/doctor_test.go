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

	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/install/doctor"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
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

// Every check says that it is fine, so none was forgotten.
func TestExamine_all(t *testing.T) {
	var names []string
	for _, f := range healthy(t).examine(t).Findings {
		names = append(names, f.Check)
	}
	want := []string{"data", "gateway", "first boot", "configuration", "ports", "disk", "wear", "database", "clock", "certificate", "service", "memory", "stations", "cloud"}
	if !slices.Equal(names, want) {
		t.Errorf("the checks are %v", names)
	}
}

// A board with much that is wrong: the worst stands first.
func TestExamine_sick(t *testing.T) {
	w := healthy(t)
	w.stop()
	w.unit()["ActiveState"], w.unit()["Result"], w.unit()["ExecMainStatus"], w.unit()["NRestarts"] = "failed", "exit-code", "1", "12"
	w.outputs["journalctl _SYSTEMD_UNIT=gatehouse.service _SYSTEMD_INVOCATION_ID=1a2b"] = "gatehouse: /etc/gatehouse/gatehouse.toml:7: mqtt cannot listen on [::]:1883\n"
	w.put("/proc/net/tcp", listening("00000000", 1883), 0o444, 0)
	w.put("/proc/700/comm", "mosquitto\n", 0o444, 0)
	w.link("/proc/700/fd/5", "socket:["+socketInode+"]")
	w.room.Free = 300e6
	w.put("/sys/devices/platform/mmc0/block/mmcblk0/device/life_time", "0x03 0x0a", 0o444, 0)
	w.put("/var/lib/gatehouse/gatehouse.db.schema1", "12345678", 0o600, gatewayUser)
	w.remove("/dev/rtc0", "/run/systemd/timesync/synchronized")
	w.kernel = false
	w.state.Floor = now().Add(50 * time.Hour)
	w.certify(t, certificate{until: now().Add(-time.Hour)})
	r := w.examine(t)
	if r.Healthy || r.Count(health.Fatal) != 2 {
		t.Errorf("the board is %t healthy, with %d fatal findings", r.Healthy, r.Count(health.Fatal))
	}
	golden(t, "sick.json", r)
}

// A check that hangs is said to hang, and keeps no other from being done.
func TestExamine_hanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer func() {
			close(release)
			synctest.Wait()
		}()
		w := healthy(t)
		m := w.machine()
		m.Real = func(path string) (string, error) { // a disk that no context moves
			<-release
			return path, nil
		}
		w.cfg.Machine = m
		begin := time.Now()
		got := complaints(w.examine(t))
		want := []string{
			"unchecked disk: it took longer than 10s: the disk or the system may hang > dmesg | tail -n 50",
			"unchecked wear: it took longer than 10s: the disk or the system may hang > dmesg | tail -n 50",
		}
		if !slices.Equal(got, want) {
			t.Errorf("complaints: %s", strings.Join(got, "\n"))
		}
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A gateway that hangs, and a systemd that does, cost their time only.
func TestExamine_nobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := healthy(t)
		m := w.machine()
		m.Run = func(ctx context.Context, _ string, _ ...string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		w.cfg.Machine = m
		w.silent = context.DeadlineExceeded
		begin := time.Now()
		got := complaints(w.examine(t))
		want := []string{
			"fatal gateway: The gateway runs but does not answer > stop the gateway and start it again: gatehouse serve",
			"unchecked service: systemd does not answer: context deadline exceeded > systemctl status gatehouse",
			"unchecked stations: only a gateway that runs knows them > ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("complaints: %s", strings.Join(got, "\n"))
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestOutage(t *testing.T) {
	w := healthy(t)
	w.stop()
	w.unit()["ActiveState"], w.unit()["Result"], w.unit()["ExecMainStatus"] = "failed", "exit-code", "1"
	ask := func(cfg doctor.Config) string {
		cfg.Machine = w.machine()
		return doctor.Outage(t.Context(), cfg)
	}
	want := "The gateway has failed, and systemd has given it up (gatehouse.service is failed (dead), enabled; its last end was exit-code, status 1): " +
		"journalctl -u gatehouse -n 50; then systemctl restart gatehouse; gatehouse doctor says more"
	if got := ask(doctor.Config{}); got != want {
		t.Errorf("outage: %s", got)
	}
	for _, named := range []doctor.Config{{Socket: "x.sock"}, {File: "x.toml"}, {Environ: []string{"GATEHOUSE_DATA=/x"}}} {
		if got := ask(named); got != "" {
			t.Errorf("systemd is asked about another gateway: %s", got)
		}
	}
	w.withoutSystemd()
	if got := ask(doctor.Config{}); got != "" {
		t.Errorf("without systemd: %s", got)
	}
}

// Somebody names a gateway: the service counts only if it is that one.
func TestExamine_named(t *testing.T) {
	const notRunning = "fatal gateway: The gateway does not run > gatehouse serve"
	const noService = "notice service: The gateway is no service: nothing starts it with the machine, or again when it ends > sudo gatehouse service install"
	for _, test := range []struct {
		data string
		want []string
	}{
		{"/var/lib/gatehouse", []string{"fatal gateway: The gateway is stopped > systemctl start gatehouse", stationsUnknown}},
		{"/srv/other", []string{notRunning, noService, stationsUnknown}},
	} {
		w := healthy(t)
		w.stop()
		w.cfg.File = "mine.toml"
		w.cfg.Files = func(path string, _ []string) ([]config.File, error) {
			text := configText
			if path != "" {
				text = strings.Replace(configText, "/var/lib/gatehouse", test.data, 1)
				text = strings.Replace(text, `tls_listen = ["[::]:443"]`, "", 1)
			}
			return []config.File{{Name: "/etc/gatehouse/gatehouse.toml", Text: []byte(text)}}, nil
		}
		if got := complaints(w.examine(t)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %s", test.data, strings.Join(got, "\n"))
		}
	}
}

func TestExamine_stations(t *testing.T) {
	w := healthy(t)
	low, good := 3.1, 3.8
	station := func(id int, name string, last time.Time, volts *float64) adminapi.Station {
		return adminapi.Station{
			StationState: site.StationState{ID: site.StationID(id), Status: site.Offline, LastConnection: site.At(last), BatteryVoltage: volts},
			Name:         name, Enrolled: site.At(now().AddDate(0, 0, -id)),
		}
	}
	for i := range 12 {
		w.stations = append(w.stations, station(i+1, "", now().AddDate(0, 0, -i-2), &good))
	}
	online := station(20, "North entrance", now(), &low)
	online.Status = site.Online
	w.stations = append(w.stations, online, station(30, "", time.Time{}, nil), station(31, "", now().Add(-time.Hour), nil))
	r := w.examine(t)
	want := []string{
		"warning stations: 12 stations silent for more than a day > check their power and their network; gatehouse station watch shows who comes back",
		"warning stations: 1 station with a low battery > change the batteries",
		"notice stations: 1 station enrolled and never connected > give the hardware its MQTT login; gatehouse station rotate N makes a new one",
	}
	if got := complaints(r); !slices.Equal(got, want) {
		t.Errorf("complaints: %s", strings.Join(got, "\n"))
	}
	facts := evidence(r)
	for _, fact := range []string{
		"station 12: silent since 2026-11-08 08:00:00 UTC\nstations: station 11:", "and 2 more", "station 20 North entrance: 3.10 V", "station 30: enrolled at",
	} {
		if !strings.Contains(facts, fact) {
			t.Errorf("no evidence %q in %s", fact, facts)
		}
	}
	if strings.Contains(facts, "station 2: silent") || strings.Contains(facts, "station 31") {
		t.Errorf("too much evidence: %s", facts)
	}
}
