package installation_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/install/installation"
)

func kinds(changes []installation.Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Kind+" "+c.What)
	}
	return strings.Join(all, "\n")
}

func TestService_Install(t *testing.T) {
	m := newMachine(t)
	changes, err := m.service().Install(t.Context())
	m.must(err)
	want := `created /etc/sysusers.d/gatehouse.conf
created user gatehouse
created /etc/tmpfiles.d/gatehouse.conf
created /etc/gatehouse
created /etc/gatehouse/conf.d
created /etc/gatehouse/credentials
created /var/lib/gatehouse
created /etc/gatehouse/gatehouse.toml
created /etc/systemd/system/gatehouse-redirect.socket
created /etc/systemd/system/gatehouse.socket
created /etc/systemd/system/gatehouse-site.service
created /etc/systemd/system/gatehouse-notice.service
created /etc/systemd/system/gatehouse-notice.path
created /etc/systemd/system/gatehouse.service
enabled gatehouse.socket
enabled gatehouse-site.service
enabled gatehouse.service
started gatehouse.service`
	if got := kinds(changes); got != want {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
	picture := m.picture()
	for _, line := range []string{
		"/etc/gatehouse/credentials drwx------",
		"/etc/systemd/system/gatehouse.service -rw-r--r-- # Written by \"gatehouse service install\"",
		"/etc/systemd/system/multi-user.target.wants/gatehouse.service ",
		"/etc/systemd/system/multi-user.target.wants/gatehouse-site.service ",
		"/etc/systemd/system/sockets.target.wants/gatehouse.socket ",
		"running: gatehouse.service",
		"running: gatehouse.socket",
	} {
		if !strings.Contains("\n"+picture, "\n"+line) {
			t.Errorf("there is no %q in\n%s", line, picture)
		}
	}
	for _, unit := range []string{"gatehouse.service", "gatehouse-site.service"} {
		if text := m.read[unit]; !strings.Contains(text, "\nExecStart="+program+" ") || strings.Contains(text, "/usr/bin/gatehouse") {
			t.Errorf("systemd has read this %s:\n%s", unit, text)
		}
	}
	if !strings.Contains(m.read["gatehouse.service"], "\nExecReload="+program+" serve --check\n") {
		t.Error("a reload checks with another program")
	}
	shipped, err := os.ReadFile("../../../configs/gatehouse.toml")
	m.must(err)
	if m.text("/etc/gatehouse/gatehouse.toml") != string(shipped) {
		t.Error("the configuration is not the shipped one")
	}
}

// The second installation brings up to date what differs, and nothing else.
func TestService_Install_again(t *testing.T) {
	m := newMachine(t)
	_, err := m.service().Install(t.Context())
	m.must(err)
	m.write("/etc/gatehouse/gatehouse.toml", "# mine\n")
	before := m.picture()
	changes, err := m.service().Install(t.Context())
	m.must(err)
	if got := kinds(changes); got != "restarted gatehouse.service" {
		t.Errorf("changes\n%s", got)
	}
	if m.picture() != before {
		t.Errorf("before\n%s\nafter\n%s", before, m.picture())
	}
	m.age()
	m.calls = nil
	changes, err = m.service().Install(t.Context())
	m.must(err)
	want := "updated /etc/systemd/system/gatehouse.socket\nupdated /etc/systemd/system/gatehouse.service\nrestarted gatehouse.service"
	if got := kinds(changes); got != want {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
	if m.picture() != before {
		t.Errorf("before\n%s\nafter\n%s", before, m.picture())
	}
	// systemd opens sockets anew only while the gateway is down.
	want = "systemctl stop gatehouse.service, systemctl restart gatehouse.socket, systemctl start gatehouse.service"
	if all := strings.Join(m.calls, ", "); !strings.Contains(all, want) {
		t.Errorf("the order is %s", all)
	}
}

// age makes the units look as if an earlier version had written them.
func (m *machine) age() {
	for _, unit := range []string{"gatehouse.service", "gatehouse.socket"} {
		path := "/etc/systemd/system/" + unit
		m.write(path, m.text(path)+"# of an earlier version\n")
	}
	m.reload()
}

// What is refused is refused before anything is touched.
func TestService_Install_refused(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(m *machine, cfg *installation.Machine)
		kind    fault.Kind
		says    string
	}{
		"an ordinary user": {
			func(_ *machine, cfg *installation.Machine) { cfg.UID = 1000 },
			fault.Forbidden, `only root may do this: run "sudo gatehouse service install"`,
		},
		"a package": {
			func(m *machine, _ *installation.Machine) { m.write("/usr/lib/systemd/system/gatehouse.service", "x") },
			fault.Conflict, "the Debian package gatehouse has installed the service",
		},
		"a package, before merged folders": {
			func(m *machine, _ *installation.Machine) { m.write("/lib/systemd/system/gatehouse.service", "x") },
			fault.Conflict, "the Debian package gatehouse has installed the service",
		},
		"somebody's unit": {
			func(m *machine, _ *installation.Machine) {
				m.write("/etc/systemd/system/gatehouse.socket", "[Socket]\n")
			},
			fault.Conflict, "/etc/systemd/system/gatehouse.socket was not written by",
		},
		"a folder for a unit": {
			func(m *machine, _ *installation.Machine) {
				m.must(os.Mkdir(m.at("/etc/systemd/system/gatehouse-site.service"), 0o755))
			},
			fault.Conflict, "/etc/systemd/system/gatehouse-site.service was not written by",
		},
		"masked": {
			func(m *machine, _ *installation.Machine) {
				m.must(os.Symlink("/dev/null", m.at("/etc/systemd/system/gatehouse.service")))
			},
			fault.Conflict, `run "systemctl unmask gatehouse.service" first`,
		},
		"a wrong configuration": {
			func(_ *machine, cfg *installation.Machine) {
				cfg.Check = func() error { return fault.New(fault.Invalid, "gatehouse.toml:3: wrong") }
			},
			fault.Invalid, "gatehouse.toml:3: wrong",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			cfg := m.config()
			test.prepare(m, &cfg)
			before := m.picture()
			_, err := installation.On(cfg).Install(t.Context())
			if !fault.Is(err, test.kind) || !strings.Contains(fault.Sentence(err), test.says) {
				t.Errorf("error %v", err)
			}
			if len(m.calls) > 0 || m.picture() != before {
				t.Errorf("it has done something: %s", m.calls)
			}
		})
	}
}

func TestService_Install_executable(t *testing.T) {
	for _, test := range []struct {
		path    string
		prepare func(m *machine)
		says    string // "": it is taken
	}{
		{program, func(*machine) {}, ""},
		{"/opt/gatehouse-1.2/bin/gatehouse", func(*machine) {}, ""},
		{program, func(m *machine) { m.must(os.Chmod(m.at("/usr/local/bin"), 0o2775)) }, ""}, // Debian's group staff
		{"/home/porter/gatehouse", func(*machine) {}, "sees no home folders"},
		{"/root/gatehouse", func(*machine) {}, "sees no home folders"},
		{"/tmp/gatehouse", func(*machine) {}, "gone after a restart"},
		{"/var/tmp/x/gatehouse", func(*machine) {}, "gone after a restart"},
		{"/run/gatehouse", func(*machine) {}, "gone after a restart"},
		{"/opt/gate house", func(*machine) {}, "a unit would misread"},
		{"/opt/%n", func(*machine) {}, "a unit would misread"},
		{"gatehouse", func(*machine) {}, "a unit would misread"},
		{program, func(m *machine) { m.must(os.Chmod(m.at(program), 0o750)) }, "may not be run by the user gatehouse"},
		{program, func(m *machine) { m.must(os.Chmod(m.at(program), 0o757)) }, "others than root may write " + program},
		{program, func(m *machine) { m.giveToGroup(program); m.must(os.Chmod(m.at(program), 0o775)) }, "others than root may write " + program},
		{program, func(m *machine) { m.must(os.Chmod(m.at("/usr/local/bin"), 0o757)) }, "others than root may write /usr/local/bin"},
		{program, func(m *machine) { m.must(os.Chmod(m.at("/usr/local"), 0o750)) }, "in the folder /usr/local, which"},
		{"/usr/local/bin", func(*machine) {}, "is no file"},
		{"/usr/local/bin/gone", func(m *machine) { m.must(os.Remove(m.at("/usr/local/bin/gone"))) }, "cannot be looked at"},
	} {
		m := newMachine(t)
		if test.path[0] == '/' && test.path != "/usr/local/bin" {
			m.write(test.path, "program")
			m.must(os.Chmod(m.at(test.path), 0o755))
		}
		test.prepare(m)
		cfg := m.config()
		cfg.Executable = test.path
		// What comes after the path is of no interest: it stops at the configuration.
		reached := errors.New("the path was taken")
		cfg.Check = func() error { return reached }
		_, err := installation.On(cfg).Install(t.Context())
		switch {
		case test.says == "" && !errors.Is(err, reached):
			t.Errorf("%s: error %v", test.path, err)
		case test.says != "" && (!strings.Contains(fault.Sentence(err), test.says) || !strings.Contains(fault.Sentence(err), "install -m 755")):
			t.Errorf("%s: error %v, want %q", test.path, err, test.says)
		}
	}
}

// giveToGroup gives a file to a group that is not root's. What an ordinary user makes
// belongs to such a one.
func (m *machine) giveToGroup(path string) {
	if os.Getgid() == 0 {
		m.must(os.Chown(m.at(path), -1, 12))
	}
}

// It belongs to somebody who is not root.
func TestService_Install_executableOfAnother(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	cfg.Trusted = os.Getuid() + 1
	_, err := installation.On(cfg).Install(t.Context())
	if !strings.Contains(fmt.Sprint(err), "does not belong to root") {
		t.Errorf("error %v", err)
	}
}

// On a machine with neither tool somebody has to make the user.
func TestService_Install_noToolForUsers(t *testing.T) {
	m := newMachine(t)
	m.without = []string{"systemd-sysusers", "useradd"}
	before := m.picture()
	_, err := m.service().Install(t.Context())
	if !strings.Contains(fmt.Sprint(err), "make a system user and a group, both named gatehouse") {
		t.Errorf("error %v", err)
	}
	if m.picture() != before {
		t.Errorf("before\n%s\nafter\n%s", before, m.picture())
	}
	m.addUser()
	changes, err := m.service().Install(t.Context())
	m.must(err)
	if slices.Contains(changes, installation.Change{Kind: "created", What: "user gatehouse"}) {
		t.Errorf("it says that it made a user: %v", changes)
	}
}
