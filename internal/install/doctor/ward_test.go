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

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/doctor"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/systemd"
)

const (
	gatewayUser  = 997
	gatewayID    = 812 // of its process
	socketInode  = "5000"
	databaseSize = 10_000_000
)

// now is when every examination takes place; the machine is up for 30 days, and the
// gateway since yesterday.
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

// ward is a board with a healthy gateway, until a test makes it ill.
type ward struct {
	files    fstest.MapFS
	units    map[string]machine.Unit
	outputs  map[string]string // of programs, by their command line's beginning
	failing  map[string]error  // likewise, for programs that fail
	room     machine.Space
	kernel   bool // whether its clock is disciplined
	closed   bool // whether a firewall shuts every port
	config   string
	status   adminapi.Status
	stations []adminapi.Station
	silent   error
	state    sqlite.FileState
	stateErr error
	verdict  journal.Verdict
	cfg      doctor.Config
}

func healthy(t *testing.T) *ward {
	t.Helper()
	w := &ward{
		files: make(fstest.MapFS), kernel: true, config: configText,
		room:   machine.Space{Free: 4e9, Total: 8e9, FreeInodes: 400_000, AllInodes: 500_000},
		state:  sqlite.FileState{Size: databaseSize, Log: 40_000, Schema: 2, Known: 2, First: 1, Last: 4711, Floor: now().Add(-5 * time.Minute)},
		status: healthyStatus(),
		units: map[string]machine.Unit{
			"gatehouse.service": {
				"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Result": "success", "UnitFileState": "enabled",
				"MainPID": "812", "NRestarts": "0", "FragmentPath": "/usr/lib/systemd/system/gatehouse.service", "NeedDaemonReload": "no",
				"User": "gatehouse", "ProtectSystem": "strict", "ProtectHome": "yes", "StateDirectory": "gatehouse", "InvocationID": "1a2b", "ControlGroup": "/system.slice/gatehouse.service", "ProtectClock": "yes", "ReloadResult": "success",
				"StateChangeTimestampMonotonic": micros(29 * 24 * time.Hour), "ActiveEnterTimestampMonotonic": micros(29 * 24 * time.Hour),
			},
			"gatehouse.socket":          {"LoadState": "loaded", "ActiveState": "active", "Result": "success", "UnitFileState": "enabled"},
			"gatehouse-site.service":    {"LoadState": "loaded", "ActiveState": "inactive", "Result": "success"},
			"systemd-timesyncd.service": {"Id": "systemd-timesyncd.service", "ActiveState": "active"},
		},
		outputs: map[string]string{
			"systemd-analyze security": "→ Overall exposure level for gatehouse.service: 1.3 OK\n",
			"journalctl":               "",
		},
		failing: make(map[string]error),
	}
	w.cfg = doctor.Config{Environ: []string{"HOME=/root"}, Version: "1.2.3", Built: now().Add(-100 * 24 * time.Hour)}
	w.furnish(t)
	return w
}

func micros(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }

func healthyStatus() adminapi.Status {
	return adminapi.Status{
		Version: "1.2.3", Started: site.At(now().Add(-24 * time.Hour)), Ready: true, Data: "/var/lib/gatehouse",
		Clock: adminapi.ClockStatus{Now: site.At(now()), Trusted: true},
		Listeners: []adminapi.Listener{
			{Name: "http", Address: "127.0.0.1:8080"},
			{Name: "https", Address: "[::]:443", TLS: true},
			{Name: "redirect", Address: "[::]:80"},
			{Name: "mqtt", Address: "[::]:1883"},
		},
	}
}

// furnish puts the files of a healthy board in place.
func (w *ward) furnish(t *testing.T) {
	t.Helper()
	const disk = "/sys/devices/platform/mmc0/block/mmcblk0"
	for path, text := range map[string]string{
		"/run/systemd/system/.keep": "", "/run/systemd/timesync/synchronized": "", "/dev/rtc0": "",
		"/etc/passwd":          "root:x:0:0::/root:/bin/sh\ngatehouse:x:997:997::/:/bin/false\n",
		"/proc/self/mountinfo": "22 1 179:2 / / rw,noatime shared:1 - ext4 /dev/root rw\n23 22 0:21 / /run rw - tmpfs tmpfs rw\n",
		"/proc/meminfo":        "MemTotal: 500000 kB\nMemAvailable: 300000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
		"/proc/locks":          "1: FLOCK  ADVISORY  WRITE 812 b3:02:77 0 EOF\n",
		"/proc/812/comm":       "gatehouse", "/proc/812/status": "VmRSS: 40000 kB\n",
		"/proc/1/comm":  "systemd",
		"/proc/net/tcp": listening("0100007F", 8080),
		"/proc/net/tcp6": listening(strings.Repeat("0", 32), 80) + listening(strings.Repeat("0", 32), 443) +
			listening(strings.Repeat("0", 32), 1883),
		"/sys/fs/cgroup/system.slice/gatehouse.service/memory.events": "oom_kill 0\n",
		disk + "/mmcblk0p2/partition":                                 "2", disk + "/stat": "1 2 3 4 5 6 2000000 8 9", disk + "/device/type": "MMC",
		disk + "/device/life_time": "0x01 0x02", disk + "/device/pre_eol_info": "0x01",
		"/sys/fs/ext4/mmcblk0p2/errors_count": "0",
	} {
		w.put(path, text, 0o644, 0)
	}
	w.link("/sys/dev/block/179:2", "../../devices/platform/mmc0/block/mmcblk0/mmcblk0p2")
	w.link("/proc/812/fd/7", "socket:["+socketInode+"]")
	w.put("/etc/gatehouse/gatehouse.toml", configText, 0o644, 0)
	w.put("/var/lib/gatehouse/gatehouse.db", string(make([]byte, 100)), 0o600, gatewayUser)
	w.put("/var/lib/gatehouse/token.key", "k", 0o600, gatewayUser)
	w.put("/var/lib/gatehouse/lock", "", 0o600, gatewayUser)
	w.files["var/lib/gatehouse/lock"].Sys = &syscall.Stat_t{Ino: 77, Uid: gatewayUser}
	w.files["var/lib/gatehouse"] = &fstest.MapFile{Mode: fs.ModeDir | 0o700, Sys: &syscall.Stat_t{Uid: gatewayUser}}
	w.certify(t, certificate{})
	unit, err := systemd.Files.ReadFile("gatehouse.service")
	if err != nil {
		t.Fatal(err)
	}
	w.put("/usr/lib/systemd/system/gatehouse.service", string(unit), 0o644, 0)
}

func (w *ward) put(path, text string, mode fs.FileMode, owner uint32) {
	w.files[strings.TrimPrefix(path, "/")] = &fstest.MapFile{
		Data: []byte(text), Mode: mode, Sys: &syscall.Stat_t{Uid: owner}, ModTime: now().Add(-10 * 24 * time.Hour),
	}
}

func (w *ward) link(path, target string) {
	w.files[strings.TrimPrefix(path, "/")] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func (w *ward) remove(paths ...string) {
	for _, path := range paths {
		delete(w.files, strings.TrimPrefix(path, "/"))
	}
}

// unit gives the unit of the service.
func (w *ward) unit() machine.Unit { return w.units["gatehouse.service"] }

// stop ends the gateway in good order.
func (w *ward) stop() {
	w.silent = fault.New(fault.Unavailable, "the gateway does not answer")
	w.unit()["ActiveState"], w.unit()["SubState"], w.unit()["MainPID"] = "inactive", "dead", "0"
	w.units["gatehouse.socket"]["ActiveState"] = "inactive"
	w.remove("/proc/812/comm", "/proc/812/status", "/proc/812/fd/7")
	w.put("/proc/locks", "", 0o444, 0)
	w.put("/proc/net/tcp", "", 0o444, 0)
	w.put("/proc/net/tcp6", "", 0o444, 0)
}

// withoutSystemd takes systemd out of the machine.
func (w *ward) withoutSystemd() {
	w.remove("/run/systemd/system/.keep")
	w.units = nil
}

// listening is a line of /proc/net/tcp.
func listening(address string, port int) string {
	return fmt.Sprintf("0: %s:%04X 0:0 0A 0:0 0:0 0 0 0 %s 1\n", address, port, socketInode)
}

// Status, Stations, VerifyJournal and Database make the ward a [doctor.Gateway].
func (w *ward) Status(context.Context) (adminapi.Status, error) {
	if w.silent != nil {
		return adminapi.Status{}, w.silent
	}
	return w.status, nil
}

func (w *ward) Stations(context.Context) ([]adminapi.Station, error) { return w.stations, w.silent }

func (w *ward) VerifyJournal(context.Context) (adminapi.Verdict, error) {
	return adminapi.Verdict{Broken: w.verdict.Broken, Why: w.verdict.Why}, w.silent
}

func (w *ward) Database(context.Context) (adminapi.Database, error) {
	return adminapi.Database(w.state), w.stateErr
}

// run is every program of the machine.
func (w *ward) run(_ context.Context, program string, args ...string) (string, error) {
	line := program + " " + strings.Join(args, " ")
	for start, err := range w.failing {
		if strings.HasPrefix(line, start) {
			return "", err
		}
	}
	if program == "systemctl" {
		return w.show(args), nil
	}
	longest, found := "", false
	for start := range w.outputs {
		if strings.HasPrefix(line, start) && len(start) >= len(longest) {
			longest, found = start, true
		}
	}
	if !found {
		return "", exec.ErrNotFound
	}
	return w.outputs[longest], nil
}

// show answers "systemctl show".
func (w *ward) show(args []string) string {
	var text strings.Builder
	wanted := ""
	for _, arg := range args {
		list, is := strings.CutPrefix(arg, "--property=")
		switch {
		case is:
			wanted = list
		case strings.HasSuffix(arg, ".service"), strings.HasSuffix(arg, ".socket"):
			for name := range strings.SplitSeq(wanted, ",") {
				fmt.Fprintf(&text, "%s=%s\n", name, w.units[arg][name])
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

func (w *ward) machine() machine.Machine {
	return machine.Machine{
		Files: w.files, Run: w.run,
		Space: func(string) (machine.Space, error) { return w.room, nil },
		Real:  func(path string) (string, error) { return path, nil },
		Connect: func(_ context.Context, address string) error {
			if w.closed {
				return fmt.Errorf("dial tcp %s: connection timed out", address)
			}
			return nil
		},
		Disciplined: func() (bool, error) { return w.kernel, nil },
		Now:         now, Uptime: func() (time.Duration, error) { return 30 * 24 * time.Hour, nil },
	}
}

// examine examines the ward.
func (w *ward) examine(t *testing.T) doctor.Report {
	t.Helper()
	cfg := w.cfg
	if cfg.Machine.Files == nil {
		cfg.Machine = w.machine()
	}
	cfg.Connect = func(string) doctor.Gateway { return w }
	if cfg.Files == nil {
		cfg.Files = func(string, []string) ([]config.File, error) {
			return []config.File{{Name: "/etc/gatehouse/gatehouse.toml", Text: []byte(w.config)}}, nil
		}
	}
	cfg.Database = func(context.Context, string) (sqlite.FileState, error) { return w.state, w.stateErr }
	cfg.Journal = func(context.Context, string) (journal.Verdict, error) { return w.verdict, nil }
	return doctor.Examine(t.Context(), cfg)
}

// complaints gives one line for each finding that is not fine, and each thing that
// could not be checked.
func complaints(r doctor.Report) []string {
	var lines []string
	for _, f := range r.Findings {
		if f.Severity != doctor.OK {
			lines = append(lines, fmt.Sprintf("%s %s: %s > %s", f.Severity, f.Check, f.Summary, f.Mend))
		}
	}
	for _, u := range r.Unchecked {
		lines = append(lines, fmt.Sprintf("unchecked %s: %s > %s", u.Check, u.Why, u.Mend))
	}
	return lines
}

// evidence gives all facts of a report.
func evidence(r doctor.Report) string {
	var all strings.Builder
	for _, f := range r.Findings {
		for _, fact := range f.Evidence {
			all.WriteString(f.Check + ": " + fact + "\n")
		}
	}
	return all.String()
}
