package installation_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/install/installation"
)

const program = "/usr/local/bin/gatehouse"

// machine is a file system in a folder, with a systemd that keeps what it is told as
// the real one does: in links, and in its memory.
type machine struct {
	*testing.T
	mu      sync.Mutex // held while a program runs: an interrupted start goes on by itself
	root    string
	without []string                         // programs that are missing
	calls   []string                         // every program that was run
	steps   int                              // how many of them could fail
	hook    func(step int, after bool) error // may let a step fail, before or after it has done its work
	running map[string]bool                  // by unit
	read    map[string]string                // the units as systemd has last read them
	journal string                           // what there is to read in it
	unready bool                             // the gateway ends as soon as it is started
	word    string                           // in which systemd says that a unit runs; "": active
	garbled bool                             // the library writes another unit than it should
}

// newMachine makes a machine with systemd and the program in its place.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, root: t.TempDir(), running: make(map[string]bool), read: make(map[string]string)}
	for _, dir := range []string{"/etc/systemd/system", "/etc/tmpfiles.d", "/run/systemd/system", "/usr/local/bin", "/var/lib"} {
		m.must(os.MkdirAll(m.at(dir), 0o755))
	}
	m.must(os.Chmod(m.root, 0o755))
	m.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	m.write(program, "program")
	m.must(os.Chmod(m.at(program), 0o755))
	return m
}

func (m *machine) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) at(path string) string { return filepath.Join(m.root, path) }

func (m *machine) write(path, text string) {
	m.Helper()
	m.must(os.MkdirAll(filepath.Dir(m.at(path)), 0o755))
	m.must(os.WriteFile(m.at(path), []byte(text), 0o644))
}

func (m *machine) text(path string) string {
	m.Helper()
	text, err := os.ReadFile(m.at(path))
	m.must(err)
	return string(text)
}

func (m *machine) exists(path string) bool {
	_, err := os.Lstat(m.at(path))
	return err == nil
}

// service gives the service of the machine, for root.
func (m *machine) service() *installation.Service { return installation.On(m.config()) }

func (m *machine) config() installation.Machine {
	return installation.Machine{
		Root: m.root, Trusted: os.Getuid(), Executable: program, Control: library{m}, Run: m.run,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
}

// picture is all that an installation may change.
func (m *machine) picture() string {
	m.Helper()
	var lines []string
	m.must(filepath.WalkDir(m.root, func(path string, entry fs.DirEntry, err error) error {
		m.must(err)
		info, err := entry.Info()
		m.must(err)
		line := fmt.Sprintf("%s %v", strings.TrimPrefix(path, m.root), info.Mode())
		switch {
		case info.Mode().IsRegular():
			line += " " + m.text(strings.TrimPrefix(path, m.root))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			m.must(err)
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	}))
	for _, unit := range slices.Sorted(maps.Keys(m.running)) {
		lines = append(lines, "running: "+unit)
	}
	for _, unit := range slices.Sorted(maps.Keys(m.read)) {
		lines = append(lines, "read by systemd: "+unit+" "+m.read[unit])
	}
	return strings.Join(lines, "\n")
}

// step does something that can fail, before or after it has had its effect.
func (m *machine) step(do func() error) error {
	m.steps++
	this := m.steps
	if m.hook != nil {
		if err := m.hook(this, false); err != nil {
			return err
		}
	}
	err := do()
	if m.hook != nil && err == nil {
		err = m.hook(this, true)
	}
	return err
}

func (m *machine) run(ctx context.Context, name string, args ...string) (out string, err error) {
	if slices.Contains(m.without, name) {
		return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	if name == "journalctl" {
		return m.journal, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, strings.Join(append([]string{name}, args...), " "))
	err = m.step(func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		out, err = m.do(name, args)
		return err
	})
	return out, err
}

func (m *machine) do(name string, args []string) (string, error) {
	switch name {
	case "systemctl":
		return m.systemctl(args[0], args[1:])
	case "systemd-sysusers":
		if !strings.Contains(m.text("/etc/sysusers.d/gatehouse.conf"), "u gatehouse - ") {
			return "", errors.New("no such user in the file")
		}
		m.addUser()
	case "useradd":
		m.addUser()
	case "userdel":
		text := m.text("/etc/passwd")
		m.write("/etc/passwd", regexp.MustCompile(`(?m)^`+args[0]+`:.*\n`).ReplaceAllString(text, ""))
	case "systemd-tmpfiles":
		m.makeFolders()
	default:
		m.Errorf("nobody should run %s", name)
	}
	return "", nil
}

func (m *machine) addUser() {
	if text := m.text("/etc/passwd"); !strings.Contains(text, "gatehouse:") {
		m.write("/etc/passwd", text+"gatehouse:x:999:999::/var/lib/gatehouse:/usr/sbin/nologin\n")
	}
}

// makeFolders does what the file for tmpfiles.d(5) says.
func (m *machine) makeFolders() {
	for line := range strings.Lines(m.text("/etc/tmpfiles.d/gatehouse.conf")) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
		case fields[0] == "d":
			m.must(os.MkdirAll(m.at(fields[1]), 0o755))
			m.must(os.Chmod(m.at(fields[1]), map[string]fs.FileMode{"0755": 0o755, "0700": 0o700}[fields[2]]))
		case fields[0] == "L+":
			_ = os.Remove(m.at(fields[1]))
			m.must(os.Symlink(fields[6], m.at(fields[1])))
		default:
			m.Errorf("what does %q do?", line)
		}
	}
}

func (m *machine) systemctl(verb string, args []string) (string, error) {
	switch verb {
	case "show":
		return m.show(args[len(args)-1]), nil
	case "daemon-reload":
		m.reload()
	case "reset-failed":
		return "", errors.New("unit not loaded")
	default:
		for _, unit := range args {
			if strings.HasPrefix(unit, "--") {
				continue
			}
			if err := m.unit(verb, unit); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

func (m *machine) show(unit string) string {
	load, active, file, status := "not-found", "inactive", "", "Stopping"
	if m.exists("/etc/systemd/system/"+unit) || m.exists("/usr/lib/systemd/system/"+unit) {
		load, file = "loaded", "disabled"
	}
	if links, _ := filepath.Glob(m.at("/etc/systemd/system/*.wants/" + unit)); len(links) > 0 {
		file = "enabled"
	}
	if m.running[unit] {
		active, status = cmp.Or(m.word, "active"), "Ready: 2 stations, a=b"
	}
	return fmt.Sprintf("LoadState=%s\nActiveState=%s\nUnitFileState=%s\nStatusText=%s\nActiveEnterTimestamp=@1799999999\nMainPID=42\nNRestarts=3\n",
		load, active, file, status)
}

// reload has systemd read the units.
func (m *machine) reload() {
	m.read = make(map[string]string)
	files, _ := filepath.Glob(m.at("/etc/systemd/system/*.*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			name := filepath.Base(file)
			m.read[name] = m.text("/etc/systemd/system/" + name)
		}
	}
}

func (m *machine) unit(verb, unit string) error {
	switch verb {
	case "enable", "disable":
		defer m.reload()
		return m.link(verb, unit)
	case "start", "restart":
		if m.read[unit] == "" {
			return fmt.Errorf("unit %s not found", unit)
		}
		return m.startUnit(unit)
	case "stop":
		delete(m.running, unit)
		if unit == "gatehouse.service" {
			m.must(os.RemoveAll(m.at("/run/gatehouse")))
		}
	default:
		m.Errorf("systemctl %s?", verb)
	}
	return nil
}

func (m *machine) startUnit(unit string) error {
	if unit == "gatehouse-site.service" {
		return nil // its conditions do not hold
	}
	if unit == "gatehouse.socket" && m.running["gatehouse.service"] && !m.running[unit] {
		return errors.New("its service is active, refusing")
	}
	m.running[unit] = true
	if unit != "gatehouse.service" {
		return nil
	}
	m.write("/var/lib/gatehouse/gatehouse.db", "data")
	m.write("/run/gatehouse/setup.issue", "code")
	if m.unready {
		return errors.New("exit status 1")
	}
	return nil
}

func (m *machine) link(verb, unit string) error {
	file := "/etc/systemd/system/" + unit
	if !m.exists(file) {
		return fmt.Errorf("unit file %s does not exist", unit)
	}
	found := regexp.MustCompile(`(?m)^WantedBy=(.*)$`).FindStringSubmatch(m.text(file))
	if found == nil {
		return errors.New("the unit is masked")
	}
	folder := m.at("/etc/systemd/system/" + found[1] + ".wants")
	link := filepath.Join(folder, unit)
	if verb == "enable" {
		m.must(os.MkdirAll(folder, 0o755))
		if err := os.Symlink(file, link); err != nil && !errors.Is(err, fs.ErrExist) {
			m.Error(err)
		}
		return nil
	}
	_ = os.Remove(link)
	_ = os.Remove(folder)
	return nil
}
