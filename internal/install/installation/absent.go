package installation

import (
	"fmt"
	"os"

	"gatehouse/internal/fault"
)

// without is nil where systemd runs. Else it says what can be done instead.
func (s *Service) without(verb string) error {
	info, err := os.Stat(s.at("/run/systemd/system")) // sd_booted(3)
	if err == nil && info.IsDir() {
		return nil
	}
	system := s.system()
	text := fmt.Sprintf("%s, and \"gatehouse service\" knows systemd only: %s", system.what, system.instead(verb))
	if verb != "status" {
		text += "; nothing was changed"
	}
	return fault.New(fault.Unavailable, text)
}

// system is a machine whose services systemd does not run.
type system struct {
	what       string
	supervisor string // what to let run the gateway; "": it is to be the first process
}

// system finds out by what stands where, the surest first.
func (s *Service) system() system {
	exists := func(path string) bool {
		_, err := os.Stat(s.at(path))
		return err == nil
	}
	for _, sign := range []struct {
		path string
		system
	}{
		{"/run/openrc", runBy("OpenRC")},
		{"/run/runit", runBy("runit")},
		{"/run/s6", runBy("s6")},
		{"/.dockerenv", container()},
		{"/run/.containerenv", container()},
		{"/etc/openwrt_release", runBy("procd")},
		{"/etc/inittab", runBy("init, with scripts in /etc/init.d")},
	} {
		if exists(sign.path) {
			return sign.system
		}
	}
	if os.Getenv("container") != "" {
		return container()
	}
	return system{"systemd does not run here", "a supervisor"}
}

func runBy(name string) system { return system{"this system is run by " + name, "its supervisor"} }

func container() system { return system{what: "this is a container without systemd"} }

// instead is what to do in the place of a command.
func (s system) instead(verb string) string {
	switch verb {
	case "install":
		if s.supervisor == "" {
			return `make "gatehouse serve" the first process of the container, with GATEHOUSE_DATA on a volume, and have it restarted whenever it ends`
		}
		return "let " + s.supervisor + ` run "gatehouse serve" as a user of its own, with GATEHOUSE_DATA on a lasting disk, and start it again whenever it ends`
	case "uninstall":
		return "it has installed nothing here; take \"gatehouse serve\" away from what runs it"
	case "start":
		return `"gatehouse serve" runs the gateway in the foreground`
	case "stop":
		return `send the process "gatehouse serve" a SIGTERM, and it stops in good order`
	case "restart":
		return `send the process "gatehouse serve" a SIGTERM and start it again; after a SIGHUP it only reads its configuration again`
	default:
		return `"gatehouse status" asks the gateway itself`
	}
}
