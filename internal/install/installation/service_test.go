package installation_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/install/installation"
)

func installedMachine(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	_, err := m.service().Install(t.Context())
	m.must(err)
	m.calls = nil
	return m
}

// orders are the calls that change something.
func (m *machine) orders() string {
	var all []string
	for _, call := range m.calls {
		if !strings.HasPrefix(call, "systemctl show ") {
			all = append(all, strings.TrimPrefix(call, "systemctl "))
		}
	}
	m.calls = nil
	return strings.Join(all, ", ")
}

func TestService_Stop(t *testing.T) {
	m := installedMachine(t)
	changes, err := m.service().Stop(t.Context())
	m.must(err)
	if got := kinds(changes); got != "stopped gatehouse.socket\nstopped gatehouse.service" {
		t.Errorf("changes %s", got)
	}
	// A socket that is open would start the gateway again.
	if got := m.orders(); got != "stop gatehouse-site.service, stop gatehouse.socket, stop gatehouse.service" {
		t.Errorf("orders %s", got)
	}
}

func TestService_Start(t *testing.T) {
	m := installedMachine(t)
	changes, err := m.service().Start(t.Context())
	m.must(err)
	if got := m.orders(); got != "" || len(changes) > 0 {
		t.Errorf("a gateway that runs is started: %s", got)
	}
	_, err = m.service().Stop(t.Context())
	m.must(err)
	m.calls = nil
	changes, err = m.service().Start(t.Context())
	m.must(err)
	if got := m.orders(); got != "restart gatehouse.socket, start gatehouse.service" || kinds(changes) != "started gatehouse.service" {
		t.Errorf("orders %s; changes %s", got, kinds(changes))
	}
	// Somebody has closed the ports only.
	delete(m.running, "gatehouse.socket")
	_, err = m.service().Start(t.Context())
	m.must(err)
	if got := m.orders(); got != "stop gatehouse.service, restart gatehouse.socket, start gatehouse.service" {
		t.Errorf("orders %s", got)
	}
}

func TestService_Restart(t *testing.T) {
	m := installedMachine(t)
	changes, err := m.service().Restart(t.Context())
	m.must(err)
	// The sockets stay open.
	if got := m.orders(); got != "restart gatehouse.service" || kinds(changes) != "restarted gatehouse.service" {
		t.Errorf("orders %s; changes %s", got, kinds(changes))
	}
	m.hook = func(int, bool) error {
		if strings.Contains(strings.Join(m.calls, ","), "restart") {
			return errors.New("made to fail")
		}
		return nil
	}
	m.journal = "gatehouse: the store is locked: stop the other gateway\n"
	_, err = m.service().Restart(t.Context())
	if !strings.HasPrefix(fault.Sentence(err), "the store is locked: stop the other gateway\nThe log says more: journalctl ") {
		t.Errorf("error %v", err)
	}
	m.journal = ""
	m.calls = nil
	_, err = m.service().Restart(t.Context())
	if !strings.HasPrefix(fault.Sentence(err), "starting gatehouse.service: exit status 1\n") {
		t.Errorf("error %v", err)
	}
}

// A service that a package has installed obeys too.
func TestService_commandsOfAPackage(t *testing.T) {
	m := newMachine(t)
	m.write("/usr/lib/systemd/system/gatehouse.service", "x")
	m.write("/usr/lib/systemd/system/gatehouse.socket", "x")
	m.read = map[string]string{"gatehouse.service": "x", "gatehouse.socket": "x"}
	_, err := m.service().Start(t.Context())
	m.must(err)
	if !m.running["gatehouse.service"] {
		t.Error("it does not run")
	}
	state, err := m.service().Status(t.Context())
	if err != nil || state.Installed != "package" || !state.Running {
		t.Errorf("%+v, %v", state, err)
	}
	_, err = m.service().Uninstall(t.Context())
	if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.Sentence(err), "apt remove gatehouse") {
		t.Errorf("error %v", err)
	}
}

func TestService_notInstalled(t *testing.T) {
	m := newMachine(t)
	s := m.service()
	for name, command := range commands(s) {
		_, err := command(t.Context())
		if name != "install" && (!fault.Is(err, fault.NotFound) || fault.Sentence(err) != `the service is not installed: run "gatehouse service install"`) {
			t.Errorf("%s: error %v", name, err)
		}
		if name == "install" {
			_, err = s.Uninstall(t.Context())
			m.must(err)
		}
	}
}

func TestService_commandsNeedRoot(t *testing.T) {
	m := installedMachine(t)
	cfg := m.config()
	cfg.UID = 1000
	s := installation.On(cfg)
	for name, command := range commands(s) {
		_, err := command(t.Context())
		if !fault.Is(err, fault.Forbidden) || !strings.Contains(fault.Sentence(err), `"sudo gatehouse service `+name+`"`) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if len(m.calls) > 0 {
		t.Errorf("it has called %s", m.calls)
	}
	if _, err := s.Status(t.Context()); err != nil {
		t.Errorf("status: %v", err)
	}
}

func TestService_Status(t *testing.T) {
	m := newMachine(t)
	check := func(want string) {
		t.Helper()
		state, err := m.service().Status(t.Context())
		m.must(err)
		got, err := json.Marshal(state)
		m.must(err)
		if string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	check(`{"installed":"no","running":false,"state":"inactive","status":"","since":null,"enabled":false,"sockets":false,"pid":0,"restarts":0}`)
	_, err := m.service().Install(t.Context())
	m.must(err)
	check(`{"installed":"service install","running":true,"state":"active","status":"Ready: 2 stations, a=b","since":"2027-01-15T07:59:59.000Z","enabled":true,"sockets":true,"pid":42,"restarts":3}`)
	_, err = m.service().Stop(t.Context())
	m.must(err)
	check(`{"installed":"service install","running":false,"state":"inactive","status":"","since":null,"enabled":true,"sockets":false,"pid":42,"restarts":3}`)
	m.write("/etc/systemd/system/gatehouse.service", "[Service]\n")
	if state, err := m.service().Status(t.Context()); err != nil || state.Installed != "otherwise" {
		t.Errorf("%+v, %v", state, err)
	}
}

// A gateway that is being started, perhaps again and again, does not run yet.
func TestService_Status_starting(t *testing.T) {
	m := installedMachine(t)
	m.word = "activating"
	state, err := m.service().Status(t.Context())
	if err != nil || state.Running || state.State != "activating" || !state.Since.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}
	m.word = "reloading"
	state, err = m.service().Status(t.Context())
	if err != nil || !state.Running || state.Since.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}
}

// Uninstalling takes away what installing has made, but for what people own.
func TestService_Uninstall(t *testing.T) {
	m := installedMachine(t)
	m.write("/etc/systemd/system/gatehouse.service.d/ours.conf", "[Service]\n")
	changes, err := m.service().Uninstall(t.Context())
	m.must(err)
	want := `stopped gatehouse.service
removed /etc/systemd/system/gatehouse.service
removed /etc/systemd/system/gatehouse.socket
removed /etc/systemd/system/gatehouse-redirect.socket
removed /etc/systemd/system/gatehouse-site.service
removed /etc/systemd/system/gatehouse-notice.service
removed /etc/systemd/system/gatehouse-notice.path
removed /etc/sysusers.d/gatehouse.conf
removed /etc/tmpfiles.d/gatehouse.conf
removed /etc/issue.d/gatehouse.issue`
	if got := kinds(changes); got != want {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(m.picture()) {
		ours := strings.Contains(line, "gatehouse")
		kept := strings.HasPrefix(line, "/etc/gatehouse") || strings.HasPrefix(line, "/var/lib/gatehouse") ||
			strings.HasPrefix(line, "gatehouse:x:999") || strings.HasPrefix(line, program) || strings.HasPrefix(line, "/etc/systemd/system/gatehouse.service.d")
		if ours && strings.HasPrefix(line, "/") && !kept || strings.HasPrefix(line, "running") || strings.HasPrefix(line, "read") {
			t.Errorf("this is left: %s", line)
		}
	}
	if !m.exists("/var/lib/gatehouse/gatehouse.db") || !m.exists("/etc/gatehouse/gatehouse.toml") || !strings.Contains(m.text("/etc/passwd"), "gatehouse:") {
		t.Error("data, configuration or user are gone")
	}
	_, err = m.service().Install(t.Context())
	m.must(err)
}

// After a failure at any step the second run comes to the end.
func TestService_Uninstall_again(t *testing.T) {
	m := installedMachine(t)
	m.steps = 0
	_, err := m.service().Uninstall(t.Context())
	m.must(err)
	done, steps := m.picture(), m.steps
	for at := 1; at < steps; at++ { // the last one is allowed to fail
		m := installedMachine(t)
		m.steps = 0
		m.hook = func(step int, _ bool) error {
			if step == at {
				return errors.New("made to fail")
			}
			return nil
		}
		_, err := m.service().Uninstall(t.Context())
		if err != nil {
			_, err = m.service().Uninstall(t.Context())
			if err != nil {
				t.Errorf("step %d: the second run: %v", at, err)
			}
		}
		if m.picture() != done {
			t.Errorf("step %d: want\n%s\ngot\n%s", at, done, m.picture())
		}
	}
}

// A unit of somebody else is not touched.
func TestService_Uninstall_foreign(t *testing.T) {
	m := installedMachine(t)
	m.must(os.Remove(m.at("/etc/systemd/system/gatehouse.service")))
	m.write("/etc/systemd/system/gatehouse.service", "[Service]\n")
	before := m.picture()
	_, err := m.service().Uninstall(t.Context())
	if !fault.Is(err, fault.Conflict) || m.picture() != before {
		t.Errorf("error %v", err)
	}
}
