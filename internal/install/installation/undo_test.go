package installation_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/fault"
)

// situations are machines on which one may install.
func situations() map[string]func(m *machine) {
	installed := func(m *machine) {
		_, err := m.service().Install(m.Context())
		m.must(err)
		m.age()
	}
	return map[string]func(m *machine){
		"blank":       func(*machine) {},
		"older tools": func(m *machine) { m.without = []string{"systemd-sysusers"} },
		"of use before": func(m *machine) {
			m.write("/etc/passwd", m.text("/etc/passwd")+"gatehouse:x:998:998::/:/bin/false\n")
			m.write("/etc/gatehouse/gatehouse.toml", "# mine\n")
			m.write("/etc/gatehouse/conf.d/70-ours.toml", "")
			m.must(os.Chmod(m.at("/etc/gatehouse"), 0o750))
			m.write("/var/lib/gatehouse/gatehouse.db", "data")
		},
		"after a power cut": func(m *machine) {
			m.write("/etc/systemd/system/gatehouse.service", "")
			m.reload()
		},
		"running": installed,
		"stopped": func(m *machine) {
			installed(m)
			_, err := m.service().Stop(m.Context())
			m.must(err)
		},
		"ports closed": func(m *machine) {
			installed(m)
			delete(m.running, "gatehouse.socket")
		},
		"disabled": func(m *machine) {
			installed(m)
			_, err := m.systemctl("disable", []string{"gatehouse.service", "gatehouse.socket"})
			m.must(err)
		},
	}
}

// Whatever step of the machine fails, before or after it has had its effect: all is
// as it was before.
func TestService_Install_undoesEverything(t *testing.T) {
	for name, prepare := range situations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			prepare(m)
			m.steps = 0
			_, err := m.service().Install(t.Context())
			m.must(err)
			steps := m.steps
			if steps < 10 {
				t.Fatalf("only %d steps can fail", steps)
			}
			for at := 1; at <= steps; at++ {
				for _, late := range []bool{false, true} {
					failAt(t, prepare, at, late)
				}
			}
		})
	}
}

func failAt(t *testing.T, prepare func(*machine), at int, late bool) {
	t.Helper()
	m := newMachine(t)
	prepare(m)
	before := m.picture()
	m.steps, m.calls = 0, nil
	m.hook = func(step int, after bool) error {
		if step == at && after == late {
			return errors.New("made to fail")
		}
		return nil
	}
	_, err := m.service().Install(t.Context())
	if err == nil {
		t.Errorf("step %d (late: %t) fails, and the installation does not", at, late)
	}
	if after := m.picture(); after != before {
		t.Errorf("step %d (late: %t): %v\n%s\nbefore\n%s\nafter\n%s", at, late, err, strings.Join(m.calls, "\n"), before, after)
	}
}

// The same for whoever presses Ctrl-C.
func TestService_Install_interrupted(t *testing.T) {
	for at := 4; at <= 12; at++ {
		m := newMachine(t)
		before := m.picture()
		ctx, cancel := context.WithCancel(t.Context())
		m.hook = func(step int, _ bool) error {
			if step == at {
				cancel()
			}
			return nil
		}
		_, err := m.service().Install(ctx)
		if err == nil || !strings.HasPrefix(err.Error(), "interrupted while ") || !strings.Contains(err.Error(), "\nEverything was put back") || errors.Is(err, context.Canceled) {
			t.Errorf("step %d: error %v", at, err)
		}
		if after := m.picture(); after != before {
			t.Errorf("step %d: before\n%s\nafter\n%s", at, before, after)
		}
	}
}

// What stands where a folder should be.
func TestService_Install_obstacles(t *testing.T) {
	for _, path := range []string{"/etc/sysusers.d", "/etc/tmpfiles.d", "/etc/gatehouse", "/etc/systemd/system/gatehouse.socket.d"} {
		m := newMachine(t)
		_ = os.Remove(m.at(path))
		m.write(path, "in the way")
		before := m.picture()
		_, err := m.service().Install(t.Context())
		if harmless := path == "/etc/systemd/system/gatehouse.socket.d"; (err == nil) != harmless {
			t.Errorf("%s: error %v", path, err)
		} else if !harmless && m.picture() != before {
			t.Errorf("%s: before\n%s\nafter\n%s", path, before, m.picture())
		}
	}
}

// A gateway that does not become ready is taken away again, and its own words say
// why.
func TestService_Install_notReady(t *testing.T) {
	m := newMachine(t)
	before := m.picture()
	m.unready = true
	m.journal = "Starting gatehouse.service - Gatehouse door gateway...\n" +
		"gatehouse: /etc/gatehouse/conf.d/7.toml:3: there is no such key\n" +
		"gatehouse.service: Failed with result 'exit-code'.\n" +
		"gatehouse: /etc/gatehouse/conf.d/7.toml:3: there is no such key\n"
	_, err := m.service().Install(t.Context())
	want := "starting the gateway failed: /etc/gatehouse/conf.d/7.toml:3: there is no such key\n" +
		"Everything was put back as it was.\n" +
		"The log says more: journalctl --unit=gatehouse.service --unit=gatehouse.socket --lines=50"
	if fault.Sentence(err) != want || !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %q, want %q", err, want)
	}
	if after := m.picture(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

func TestService_Install_portInUse(t *testing.T) {
	m := newMachine(t)
	m.hook = func(int, bool) error {
		if last := m.calls[len(m.calls)-1]; last == "systemctl restart gatehouse.socket" {
			return errors.New("systemctl: job failed")
		}
		return nil
	}
	m.journal = "gatehouse.socket: Failed to create listening socket ([::]:443): Address already in use\n" +
		"gatehouse.socket: Failed to listen on sockets: Address already in use\n"
	_, err := m.service().Install(t.Context())
	first, _, _ := strings.Cut(fault.Sentence(err), "\n")
	want := "starting the gateway failed: another program holds the port 443: find it with \"ss -ltnp\" and stop it, " +
		"or name other ports in /etc/systemd/system/gatehouse.socket.d/ports.conf and in /etc/gatehouse/gatehouse.toml"
	if first != want {
		t.Errorf("error %q", err)
	}
}

// What systemd says, where the gateway itself says nothing.
func TestService_Install_timeout(t *testing.T) {
	m := newMachine(t)
	m.unready = true
	m.journal = "gatehouse.service: Failed to kill control group, ignoring: Input/output error\n" +
		"gatehouse.service: Failed with result 'timeout'.\n" +
		"Failed to start gatehouse.service - Gatehouse door gateway.\n"
	_, err := m.service().Install(t.Context())
	if !strings.HasPrefix(fault.Sentence(err), "starting the gateway failed: gatehouse.service: Failed to become ready in time\nEverything") {
		t.Errorf("error %v", err)
	}
}

// What the library has written is looked at.
func TestService_Install_otherUnit(t *testing.T) {
	m := newMachine(t)
	before := m.picture()
	m.garbled = true
	_, err := m.service().Install(t.Context())
	want := "writing the units failed: /etc/systemd/system/gatehouse.service is not what it should be\nEverything was put back as it was."
	if fault.Sentence(err) != want || m.picture() != before {
		t.Errorf("error %v", err)
	}
}

// Where undoing fails too, the error says what is left, and the rest is undone.
func TestService_Install_undoFails(t *testing.T) {
	m := newMachine(t)
	m.unready = true
	m.hook = func(int, bool) error {
		if last := m.calls[len(m.calls)-1]; last == "userdel gatehouse" {
			return errors.New("the file of users is locked")
		}
		return nil
	}
	_, err := m.service().Install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "\nnot everything could be put back as it was: removing the user gatehouse: the file of users is locked\nThe log says more") {
		t.Errorf("error %v", err)
	}
	for _, path := range []string{"/etc/systemd/system/gatehouse.service", "/etc/sysusers.d", "/var/lib/gatehouse", "/etc/gatehouse"} {
		if m.exists(path) {
			t.Errorf("%s is left", path)
		}
	}
}
