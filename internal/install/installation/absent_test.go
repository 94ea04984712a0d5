package installation_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/install/installation"
)

// commands are those that change something, by their names.
func commands(s *installation.Service) map[string]func(context.Context) ([]installation.Change, error) {
	return map[string]func(context.Context) ([]installation.Change, error){
		"install": s.Install, "uninstall": s.Uninstall, "start": s.Start, "stop": s.Stop, "restart": s.Restart,
	}
}

func TestService_withoutSystemd(t *testing.T) {
	t.Setenv("container", "")
	for name, test := range map[string]struct{ sign, says, install string }{
		"OpenRC":  {"/run/openrc", "this system is run by OpenRC", `let its supervisor run "gatehouse serve"`},
		"runit":   {"/run/runit", "this system is run by runit", `let its supervisor run "gatehouse serve"`},
		"docker":  {"/.dockerenv", "this is a container without systemd", `make "gatehouse serve" the first process`},
		"podman":  {"/run/.containerenv", "this is a container without systemd", `make "gatehouse serve" the first process`},
		"OpenWrt": {"/etc/openwrt_release", "this system is run by procd", `let its supervisor run "gatehouse serve"`},
		"sysv":    {"/etc/inittab", "this system is run by init, with scripts in /etc/init.d", `let its supervisor run "gatehouse serve"`},
		"nothing": {"/etc/other", "systemd does not run here", `let a supervisor run "gatehouse serve"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.must(os.Remove(m.at("/run/systemd/system")))
			m.write(test.sign, "")
			checkWithout(m, test.says, test.install)
		})
	}
	t.Setenv("container", "lxc")
	m := newMachine(t)
	m.must(os.Remove(m.at("/run/systemd/system")))
	checkWithout(m, "this is a container without systemd", "")
}

// checkWithout has each command say what can be done, and do nothing.
func checkWithout(m *machine, says, install string) {
	m.Helper()
	before := m.picture()
	s := m.service()
	said := make(map[string]string)
	for name, command := range commands(s) {
		_, err := command(m.Context())
		said[name] = fault.Sentence(err)
	}
	_, err := s.Status(m.Context())
	said["status"] = fault.Sentence(err)
	for name, sentence := range said {
		if !strings.HasPrefix(sentence, says+`, and "gatehouse service" knows systemd only: `) || strings.HasSuffix(sentence, "; nothing was changed") == (name == "status") {
			m.Errorf("%s says %q", name, sentence)
		}
	}
	if !strings.Contains(said["install"], install) {
		m.Errorf("install says %q", said["install"])
	}
	for name, word := range map[string]string{"uninstall": "installed nothing", "start": "foreground", "stop": "SIGTERM", "restart": "SIGHUP", "status": `"gatehouse status"`} {
		if !strings.Contains(said[name], word) {
			m.Errorf("%s says %q", name, said[name])
		}
	}
	if len(m.calls) > 0 || m.picture() != before {
		m.Errorf("it has done something: %s", m.calls)
	}
}
