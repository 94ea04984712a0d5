package installation_test

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/kardianos/service"

	"gatehouse/internal/install/installation"
)

// library does what github.com/kardianos/service does, with its faults.
type library struct{ m *machine }

const libraryUnit = "/etc/systemd/system/gatehouse.service"

func (l library) Install() error {
	if l.m.exists(libraryUnit) {
		return errors.New("Init already exists: " + libraryUnit)
	}
	l.m.write(libraryUnit, "") // and there it stays when the next step fails
	err := l.m.step(func() error {
		template, err := installation.Template("gatehouse.service")
		l.m.must(err)
		if l.m.garbled {
			template = "[Unit]\nConditionFileIsExecutable={{Path}}\n" + template
		}
		l.m.write(libraryUnit, strings.ReplaceAll(template, "{{Path}}", program))
		return os.Chmod(l.m.at(libraryUnit), 0o600) // as with a strict umask
	})
	if err == nil {
		err = l.call("enable gatehouse.service")
	}
	if err == nil {
		err = l.call("daemon-reload")
	}
	return err
}

func (l library) Uninstall() error {
	if err := l.call("disable gatehouse.service"); err != nil {
		return err
	}
	if err := os.Remove(l.m.at(libraryUnit)); err != nil {
		return err
	}
	return l.call("daemon-reload")
}

func (l library) Start() error   { return l.call("start gatehouse.service") }
func (l library) Stop() error    { return l.call("stop gatehouse.service") }
func (l library) Restart() error { return l.call("restart gatehouse.service") }

func (l library) Status() (service.Status, error) {
	switch {
	case l.m.running["gatehouse.service"]:
		return service.StatusRunning, nil
	case l.m.exists(libraryUnit), l.m.exists("/usr/lib/systemd/system/gatehouse.service"):
		return service.StatusStopped, nil
	default:
		return service.StatusUnknown, service.ErrNotInstalled
	}
}

// call gives an exit status only, as the library does.
func (l library) call(line string) error {
	if _, err := l.m.run(context.Background(), "systemctl", strings.Fields(line)...); err != nil {
		return errors.New("exit status 1")
	}
	return nil
}
