package service_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	own "gatehouse/internal/install/service"
)

const (
	program = "/usr/local/bin/gatehouse"
	unit    = "/etc/systemd/system/gatehouse.service"
)

// machine is a machine with a fake systemd: it is the library, too.
type machine struct {
	*testing.T

	root     string
	commands []string // that were run
	active   bool     // the gateway
	sockets  bool
	broken   string // the command that fails
	log      string // of the gateway
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, root: t.TempDir()}
	m.write(program, "")
	m.must(os.Chmod(m.at(program), 0o755))
	m.must(os.MkdirAll(m.at("/run/systemd/system"), 0o755))
	m.must(os.Chmod(m.root, 0o755))
	return m
}

func (m *machine) at(path string) string { return filepath.Join(m.root, path) }

func (m *machine) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) write(path, text string) {
	m.Helper()
	m.must(os.MkdirAll(filepath.Dir(m.at(path)), 0o755))
	m.must(os.WriteFile(m.at(path), []byte(text), 0o600))
}

// service returns the service, and its error.
func (m *machine) service() *own.Service {
	return own.NewFake(own.Config{Executable: program, Check: func() error { return nil }}, m.root, os.Getuid(), m, m.run)
}

// files lists every file but those that newMachine wrote.
func (m *machine) files() (all []string) {
	m.Helper()
	m.must(filepath.WalkDir(m.root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && path != m.at(program) {
			all = append(all, strings.TrimPrefix(path, m.root))
		}
		return err
	}))
	return all
}

func (m *machine) run(_ context.Context, name string, args ...string) (string, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	m.commands = append(m.commands, strings.ReplaceAll(command, m.root, ""))
	switch {
	case m.broken != "" && strings.HasPrefix(command, m.broken):
		return "", errors.New("exit status 1")
	case name == "journalctl":
		return m.log, nil
	case strings.HasPrefix(command, "systemctl show"):
		return m.show(), nil
	case strings.HasPrefix(command, "systemctl start gatehouse.socket"):
		m.sockets = true
	case strings.HasPrefix(command, "systemctl stop") && strings.Contains(command, "gatehouse.socket"):
		m.sockets = false
		m.active = m.active && !strings.Contains(command, "gatehouse.service")
	}
	return "", nil
}

func (m *machine) show() string {
	word := map[bool]string{true: "active", false: "inactive"}
	path := ""
	if _, err := os.Stat(m.at(unit)); err == nil {
		path = unit
	}
	if _, err := os.Stat(m.at("/usr/lib/systemd/system/gatehouse.service")); err == nil {
		path = "/usr/lib/systemd/system/gatehouse.service"
	}
	return "ActiveState=" + word[m.active] + "\nUnitFileState=enabled\nFragmentPath=" + path + "\n\nActiveState=" + word[m.sockets] + "\n"
}

func (m *machine) call(verb string, active bool) error {
	m.commands = append(m.commands, "library "+verb)
	if m.broken == "library "+verb {
		return errors.New("exit status 1")
	}
	m.active = active
	return nil
}

func (m *machine) Start() error   { return m.call("start", true) }
func (m *machine) Stop() error    { return m.call("stop", false) }
func (m *machine) Restart() error { return m.call("restart", true) }

func TestService_Install(t *testing.T) {
	m := newMachine(t)
	m.must(m.service().Install(t.Context()))
	for _, path := range []string{unit, "/etc/systemd/system/gatehouse.socket", "/etc/sysusers.d/gatehouse.conf", "/etc/gatehouse/gatehouse.toml"} {
		if !slices.Contains(m.files(), path) {
			t.Errorf("%s was not created: %v", path, m.files())
		}
	}
	text, err := os.ReadFile(m.at(unit))
	if err != nil || !strings.Contains(string(text), "\nExecStart="+program+" serve\n") || strings.Contains(string(text), "/usr/bin/gatehouse") {
		t.Errorf("%v, the unit is\n%s", err, text)
	}
	want := []string{
		"systemd-sysusers /etc/sysusers.d/gatehouse.conf", "systemd-tmpfiles --create /etc/tmpfiles.d/gatehouse.conf",
		"systemctl daemon-reload", "systemctl enable gatehouse.socket gatehouse-site.service gatehouse.service",
		"systemctl stop gatehouse.socket", "library stop", "systemctl start gatehouse.socket", "library start", "systemctl start --no-block gatehouse-site.service",
	}
	if got := m.commands[1:]; !slices.Equal(got, want) { // the first asks for the state
		t.Errorf("commands %q", got)
	}

	// Once more: the units are written again, and the configuration never.
	m.write("/etc/gatehouse/gatehouse.toml", "mine")
	mark, _, _ := strings.Cut(string(text), "\n")
	m.write(unit, mark+"\n")
	m.must(m.service().Install(t.Context()))
	if again, err := os.ReadFile(m.at(unit)); err != nil || !bytes.Equal(again, text) {
		t.Errorf("%v, the unit is\n%s", err, again)
	}
	if text, err := os.ReadFile(m.at("/etc/gatehouse/gatehouse.toml")); err != nil || string(text) != "mine" {
		t.Errorf("the configuration is %s, %v", text, err)
	}
}

// A first installation that fails leaves no file, and reports why it failed.
func TestService_Install_fails(t *testing.T) {
	for broken, log := range map[string]string{
		"systemd-sysusers": "", "systemctl enable": "", "library start": "gatehouse: the database is of a newer version\n",
		"systemctl start gatehouse.socket": "gatehouse.socket: Failed to create listening socket ([::]:1883): Address already in use\n",
	} {
		m := newMachine(t)
		m.broken, m.log = broken, log
		err := m.service().Install(t.Context())
		if err == nil || !strings.Contains(err.Error(), "Every file that was written has been removed") {
			t.Errorf("%s: error %v", broken, err)
			continue
		}
		if left := m.files(); len(left) > 0 || m.active || m.sockets {
			t.Errorf("%s: left %v, running %v, sockets %v", broken, left, m.active, m.sockets)
		}
		switch {
		case broken == "library start" && !strings.Contains(err.Error(), "the database is of a newer version"),
			broken == "systemctl start gatehouse.socket" && !strings.Contains(err.Error(), `another program holds port 1883: find it with "ss -ltnp"`):
			t.Errorf("%s: error %v", broken, err)
		}
	}
}

// An update that fails removes nothing: the program has been replaced already.
func TestService_Install_updateFails(t *testing.T) {
	m := newMachine(t)
	if err := m.service().Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := m.files()
	m.broken = "library start"
	err := m.service().Install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "The service stays installed") || !slices.Equal(m.files(), before) {
		t.Errorf("error %v; files %v", err, m.files())
	}
}

func TestService_Install_refused(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(m *machine)
		want    string
	}{
		"package":  {func(m *machine) { m.write("/usr/lib/systemd/system/gatehouse.service", "") }, "apt"},
		"foreign":  {func(m *machine) { m.write(unit, "[Unit]\n") }, "was not written by"},
		"masked":   {func(m *machine) { m.mask(unit) }, "systemctl unmask gatehouse.service"},
		"writable": {func(m *machine) { m.must(os.Chmod(m.at("/usr/local"), 0o777)) }, "others than root"},
		"closed":   {func(m *machine) { m.must(os.Chmod(m.at(program), 0o750)) }, "cannot be run by the user gatehouse"},
		"linked": {func(m *machine) {
			m.must(os.Rename(m.at(program), m.at(program+"1")))
			m.must(os.Symlink("gatehouse1", m.at(program)))
		}, "others than root"},
	} {
		m := newMachine(t)
		test.prepare(m)
		before := m.files()
		err := m.service().Install(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || !slices.Equal(m.files(), before) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	m := newMachine(t)
	for _, path := range []string{"/home/a/gatehouse", "/tmp/gatehouse", "/opt/my programs/gatehouse", "/opt/%n"} {
		s := own.NewFake(own.Config{Executable: path, Check: func() error { return nil }}, m.root, os.Getuid(), m, m.run)
		if err := s.Install(t.Context()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	check := errors.New("gatehouse.toml:1 is wrong")
	s := own.NewFake(own.Config{Executable: program, Check: func() error { return check }}, m.root, os.Getuid(), m, m.run)
	if err := s.Install(t.Context()); !errors.Is(err, check) || len(m.files()) > 0 {
		t.Errorf("with a wrong configuration: %v, %v", err, m.files())
	}
}

// mask has a unit be a link to /dev/null.
func (m *machine) mask(path string) {
	m.Helper()
	m.must(os.MkdirAll(filepath.Dir(m.at(path)), 0o755))
	m.must(os.Symlink(os.DevNull, m.at(path)))
}

func TestService_Uninstall(t *testing.T) {
	m := newMachine(t)
	s := m.service()
	if err := s.Uninstall(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("nothing is installed: %v", err)
	}
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.write("/run/gatehouse-notice/gatehouse.issue", "")
	m.write("/etc/issue.d/gatehouse.issue", "")
	m.must(s.Uninstall(t.Context()))
	if left := m.files(); !slices.Equal(left, []string{"/etc/gatehouse/gatehouse.toml"}) {
		t.Errorf("left %v", left)
	}
	if _, err := os.Stat(m.at("/run/gatehouse-notice")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the notice is left: %v", err)
	}
	if m.active || m.sockets {
		t.Errorf("running %v, sockets %v", m.active, m.sockets)
	}
}

func TestService_orders(t *testing.T) {
	m := newMachine(t)
	s := m.service()
	for _, order := range []func(context.Context) error{s.Start, s.Stop, s.Restart} {
		if err := order(t.Context()); !fault.Is(err, fault.NotFound) {
			t.Errorf("nothing is installed: %v", err)
		}
		if err := s.As(1000).Start(t.Context()); !fault.Is(err, fault.Forbidden) {
			t.Errorf("not root: %v", err)
		}
	}
	m.write("/usr/lib/systemd/system/gatehouse.service", "")
	for _, step := range []struct {
		order  func(context.Context) error
		active bool
		calls  string
	}{
		{s.Start, true, "systemctl stop gatehouse.socket, library stop, systemctl start gatehouse.socket, library start"},
		{s.Start, true, ""},
		{s.Restart, true, "library restart"},
		{s.Stop, false, "systemctl stop gatehouse.socket gatehouse-site.service, library stop"},
	} {
		m.commands = nil
		if err := step.order(t.Context()); err != nil || m.active != step.active || m.sockets != step.active {
			t.Errorf("%v; running %v, sockets %v", err, m.active, m.sockets)
		}
		if got := strings.Join(m.commands[1:], ", "); got != step.calls {
			t.Errorf("calls %q, want %q", got, step.calls)
		}
	}
	m.must(os.RemoveAll(m.at("/run/systemd")))
	if err := s.Start(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "systemd does not run here") {
		t.Errorf("without systemd: %v", err)
	}
}

func TestService_Status(t *testing.T) {
	m := newMachine(t)
	s := m.service().As(1000)
	state, err := s.Status(t.Context())
	if err != nil || state.Installed != "no" || state.Running {
		t.Errorf("%+v, %v", state, err)
	}
	m.write("/usr/lib/systemd/system/gatehouse.service", "")
	m.active, m.sockets = true, true
	state, err = s.Status(t.Context())
	if err != nil || state.Installed != "package" || !state.Running || !state.Enabled || !state.Sockets {
		t.Errorf("%+v, %v", state, err)
	}
}

// The library still has what is used of it.
func TestNew(t *testing.T) {
	if _, err := own.New(own.Config{Executable: program, Check: func() error { return nil }}); err != nil {
		t.Error(err)
	}
}
