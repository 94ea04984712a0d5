package installation

import (
	"errors"
	"fmt"

	"github.com/kardianos/service"
)

// control is the part of [service.Service] that is used. Install writes the unit,
// enables it and has systemd read it; it refuses when the file is there, and where it
// fails it leaves the file, even an empty one. Its errors are exit statuses without
// words.
type control interface {
	Install() error
	Uninstall() error
	Start() error
	Stop() error
	Restart() error
	Status() (service.Status, error)
}

// newControl gives the control of gatehouse.service. It takes that of systemd by its
// name: left to itself the library falls back to scripts in /etc/init.d.
func newControl(executable, template string) (control, error) {
	for _, system := range service.AvailableSystems() {
		if system.String() != "linux-systemd" {
			continue
		}
		s, err := system.New(nil, &service.Config{
			Name:       "gatehouse",
			Executable: executable,
			Option:     service.KeyValue{"SystemdScript": template},
		})
		if err != nil {
			return nil, fmt.Errorf("preparing the service: %w", err)
		}
		return s, nil
	}
	return nil, errors.New("this program was built for a system that has no systemd")
}
