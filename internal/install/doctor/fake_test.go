package doctor_test

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/doctor"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

const gatewayUser = 997

// now is when every examination takes place; the gateway has run since yesterday.
func now() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }

const configText = `data = "/var/lib/gatehouse"
name = "north-gate"
[http]
listen = ["127.0.0.1:8080"]
tls_listen = ["[::]:443"]
[mqtt]
listen = ["[::]:1883"]
tls_listen = []
[admin]
socket = "/run/gatehouse/admin.sock"
`

// board is a machine with a healthy gateway, until a test changes it. It is the
// [doctor.Gateway] too.
type board struct {
	files    fstest.MapFS
	units    map[string]machine.Unit
	outputs  map[string]string // of programs, by the beginning of their command line
	failing  map[string]error  // likewise, of programs that fail
	room     durable.Room
	kernel   bool // whether its clock is disciplined
	config   string
	status   adminapi.Status
	silent   error // why the gateway does not answer
	state    site.DatabaseState
	stateErr error
	cfg      doctor.Config
}

func healthy(t *testing.T) *board {
	t.Helper()
	b := &board{
		files: make(fstest.MapFS), kernel: true, config: configText,
		room:   durable.Room{Free: 4e9, Total: 8e9},
		state:  site.DatabaseState{Size: 10_000_000, Log: 40_000, Schema: 2, First: 1, Last: 4711},
		status: healthyStatus(),
		units: map[string]machine.Unit{
			"gatehouse.service": {
				"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Result": "success", "UnitFileState": "enabled",
				"MainPID": "812", "NRestarts": "0", "FragmentPath": "/usr/lib/systemd/system/gatehouse.service",
			},
			"gatehouse.socket":          {"LoadState": "loaded", "ActiveState": "active", "Result": "success", "UnitFileState": "enabled"},
			"gatehouse-redirect.socket": {"LoadState": "loaded", "ActiveState": "active", "Result": "success"},
			"gatehouse-site.service":    {"LoadState": "loaded", "ActiveState": "inactive", "Result": "success"},
		},
		outputs: map[string]string{"ss": ""}, failing: make(map[string]error),
		cfg: doctor.Config{Environ: []string{"HOME=/root"}, Version: "1.2.3"},
	}
	for _, path := range []string{
		"/run/systemd/system/.keep", "/usr/lib/systemd/system/gatehouse.service", "/etc/gatehouse/gatehouse.toml",
	} {
		b.put(path, "", 0o644, 0)
	}
	for _, name := range []string{"gatehouse.db", "token.key", "lock"} {
		b.put("/var/lib/gatehouse/"+name, "x", 0o600, gatewayUser)
	}
	b.files["var/lib/gatehouse"] = &fstest.MapFile{Mode: fs.ModeDir | 0o700, Sys: &syscall.Stat_t{Uid: gatewayUser, Dev: unix.Mkdev(179, 4)}}
	b.put("/sys/dev/block/179:4/uevent", "MAJOR=179\nMINOR=4\nDEVNAME=mmcblk0p4\n", 0o644, 0)
	b.put("/usr/lib/gatehouse-image/update-keys", "# of releases\nrelease-2026 AAAA\n", 0o644, 0)
	b.hasWritten(34e6, 10*24*time.Hour)
	return b
}

func healthyStatus() adminapi.Status {
	return adminapi.Status{
		Version: "1.2.3", Name: "north-gate", Started: site.At(now().Add(-24 * time.Hour)), Ready: true, Data: "/var/lib/gatehouse", Accounts: 3,
		Clock: adminapi.ClockStatus{Now: site.At(now()), Trusted: true},
		Listeners: []adminapi.Listener{
			{Name: "http", Address: "127.0.0.1:8080"},
			{Name: "https", Address: "[::]:443", TLS: true},
			{Name: "redirect", Address: "[::]:80"},
			{Name: "mqtt", Address: "[::]:1883"},
		},
		Certificate: &adminapi.CertificateStatus{
			Names: []string{"north-gate", "north-gate.local"}, NotAfter: site.At(now().AddDate(0, 11, 0)), Fingerprint: "AB:CD", Own: true, AuthorityFingerprint: "EF:01",
		},
		Update: site.UpdateStatus{
			Image: true, Family: "gatehouse-arm64", Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a",
			Other: site.SlotStatus{Slot: "b"}, Phase: site.UpdateIdle,
		},
	}
}

func (b *board) put(path, text string, mode fs.FileMode, owner uint32) {
	b.files[strings.TrimPrefix(path, "/")] = &fstest.MapFile{
		Data: []byte(text), Mode: mode, Sys: &syscall.Stat_t{Uid: owner}, ModTime: now().Add(-10 * 24 * time.Hour),
	}
}

// hasWritten sets how many bytes were written to the card in which time.
func (b *board) hasWritten(bytes int64, up time.Duration) {
	b.put("/sys/dev/block/179:4/stat", fmt.Sprintf("4521 112 153042 9120 2001 733 %d 18231 0 15604 27351\n", bytes/512), 0o444, 0)
	b.put("/proc/uptime", fmt.Sprintf("%.2f 59401.97\n", up.Seconds()), 0o444, 0)
}

func (b *board) remove(path string) { delete(b.files, strings.TrimPrefix(path, "/")) }

// unit returns the unit of the service.
func (b *board) unit() machine.Unit { return b.units["gatehouse.service"] }

// stop stops the gateway in good order.
func (b *board) stop() {
	b.silent = fault.New(fault.Unavailable, "the gateway does not answer")
	b.unit()["ActiveState"], b.unit()["SubState"], b.unit()["MainPID"] = "inactive", "dead", "0"
	b.units["gatehouse.socket"]["ActiveState"] = "inactive"
	b.units["gatehouse-redirect.socket"]["ActiveState"] = "inactive"
}

// withoutSystemd removes systemd from the machine.
func (b *board) withoutSystemd() {
	b.remove("/run/systemd/system/.keep")
	b.units = nil
}

func (b *board) Status(context.Context) (adminapi.Status, error) {
	if b.silent != nil {
		return adminapi.Status{}, b.silent
	}
	return b.status, nil
}

func (b *board) Database(context.Context) (adminapi.Database, error) {
	return b.state, b.stateErr
}

// run is every program of the machine.
func (b *board) run(_ context.Context, program string, args ...string) (string, error) {
	line := program + " " + strings.Join(args, " ")
	for start, err := range b.failing {
		if strings.HasPrefix(line, start) {
			return "", err
		}
	}
	if program == "systemctl" {
		return b.show(args), nil
	}
	longest, found := "", false
	for start := range b.outputs {
		if strings.HasPrefix(line, start) && len(start) >= len(longest) {
			longest, found = start, true
		}
	}
	if !found {
		return "", exec.ErrNotFound
	}
	return b.outputs[longest], nil
}

// show answers "systemctl show".
func (b *board) show(args []string) string {
	var text strings.Builder
	wanted := ""
	for _, arg := range args {
		list, is := strings.CutPrefix(arg, "--property=")
		switch {
		case is:
			wanted = list
		case strings.HasSuffix(arg, ".service"), strings.HasSuffix(arg, ".socket"):
			for name := range strings.SplitSeq(wanted, ",") {
				fmt.Fprintf(&text, "%s=%s\n", name, b.units[arg][name])
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

func (b *board) machine() machine.Machine {
	return machine.Machine{
		Files: b.files, Run: b.run, Now: now,
		Space:        func(string) (durable.Room, error) { return b.room, nil },
		Synchronised: func() bool { return b.kernel },
	}
}

// examine examines the board.
func (b *board) examine(t *testing.T) doctor.Report {
	t.Helper()
	cfg := b.cfg
	if cfg.Machine.Files == nil {
		cfg.Machine = b.machine()
	}
	cfg.Connect = func(string) doctor.Gateway { return b }
	if cfg.Files == nil {
		cfg.Files = func(string, []string) ([]config.File, error) {
			return []config.File{{Name: "/etc/gatehouse/gatehouse.toml", Text: []byte(b.config)}}, nil
		}
	}
	cfg.Update = func() site.UpdateStatus { return b.status.Update }
	cfg.Database = func(context.Context, string) (site.DatabaseState, error) { return b.state, b.stateErr }
	return doctor.Examine(t.Context(), cfg)
}

// complaints returns one line for each finding that is not fine.
func complaints(r doctor.Report) []string {
	var lines []string
	for _, f := range r.Findings {
		if f.Severity != doctor.OK {
			lines = append(lines, fmt.Sprintf("%s %s: %s > %s", f.Severity, f.Check, f.Summary, f.Fix))
		}
	}
	return lines
}

// evidence returns all facts of a report.
func evidence(r doctor.Report) string {
	var all strings.Builder
	for _, f := range r.Findings {
		for _, fact := range f.Evidence {
			all.WriteString(f.Check + ": " + fact + "\n")
		}
	}
	return all.String()
}
