package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/kardianos/service"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
)

// Config is what a [Service] needs.
type Config struct {
	// Executable is the path of this program, without links: [os.Executable] resolved.
	Executable string
	// Check returns what is wrong with the configuration of the system; nil: it is not
	// checked.
	Check func() error
}

// Service is the gateway as a service of this machine. Not safe for concurrent use. Every
// method fails with the kind Unavailable where systemd does not run, and all but Status
// with Forbidden unless the caller is root.
type Service struct {
	Config

	root    string // before every path; "" outside of tests
	uid     int    // of this process
	trusted int    // the user who must own the program: root, outside of tests
	control control
	run     func(ctx context.Context, name string, args ...string) (string, error)
}

// control is the part of [service.Service] that is used. Its errors are exit statuses
// with few words.
type control interface {
	Start() error
	Stop() error
	Restart() error
}

// Change is something that was done.
type Change struct {
	Kind string `json:"kind"` // created, updated, removed, enabled, started, restarted or stopped
	What string `json:"what"` // a file or a unit
}

// New returns the service; it touches nothing.
func New(cfg Config) (*Service, error) {
	s := &Service{Config: cfg, uid: os.Geteuid(), run: machine.This().Run}
	// By its name: left to itself the library falls back to scripts in /etc/init.d.
	for _, system := range service.AvailableSystems() {
		if system.String() != "linux-systemd" {
			continue
		}
		c, err := system.New(nil, &service.Config{Name: "gatehouse"})
		s.control = c
		return s, err
	}
	return nil, errors.New("this program was built for a system that has no systemd")
}

// Start starts the gateway and its sockets and returns when it is ready. It returns no
// change where both are running.
func (s *Service) Start(ctx context.Context) ([]Change, error) {
	return s.order(ctx, "start", func(now State) ([]Change, error) {
		if now.Running && now.Sockets {
			return nil, nil
		}
		return []Change{{"started", serviceUnit}}, s.bringUp(ctx, now.Sockets)
	})
}

// Restart restarts the gateway and returns when it is ready. Sockets that are open stay
// open.
func (s *Service) Restart(ctx context.Context) ([]Change, error) {
	return s.order(ctx, "restart", func(now State) ([]Change, error) {
		return []Change{{"restarted", serviceUnit}}, s.bringUp(ctx, now.Sockets)
	})
}

// Stop closes the sockets and stops the gateway. With open sockets the next connection
// would start it again.
func (s *Service) Stop(ctx context.Context) ([]Change, error) {
	return s.order(ctx, "stop", func(State) ([]Change, error) {
		if _, err := s.run(ctx, "systemctl", "stop", socketUnit, siteUnit); err != nil {
			return nil, err
		}
		return []Change{{"stopped", socketUnit}, {"stopped", serviceUnit}}, s.control.Stop()
	})
}

// order does what needs root and an installed service.
func (s *Service) order(ctx context.Context, verb string, do func(now State) ([]Change, error)) ([]Change, error) {
	now, err := s.installed(ctx, verb)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	changes, err := do(now)
	if err != nil {
		return nil, s.explain(ctx, verb, err, began)
	}
	return changes, nil
}

// may returns an error where systemd does not run or the caller is not root.
func (s *Service) may(verb string) error {
	info, err := os.Stat(s.at("/run/systemd/system")) // sd_booted(3)
	switch {
	case err != nil || !info.IsDir():
		return fault.New(fault.Unavailable, `systemd does not run here, and "gatehouse service" knows no other service manager: have yours run "gatehouse serve", and restart it whenever it ends`)
	case s.uid != 0 && verb != "status":
		return fault.New(fault.Forbidden, "only root may do this: run \"sudo gatehouse service "+verb+"\"")
	default:
		return nil
	}
}

// installed returns the state of the service; NotFound where it is not installed.
func (s *Service) installed(ctx context.Context, verb string) (State, error) {
	if err := s.may(verb); err != nil {
		return State{}, err
	}
	state, err := s.state(ctx)
	if err == nil && state.Installed == byNobody {
		err = notInstalled()
	}
	return state, err
}

func notInstalled() error {
	return fault.New(fault.NotFound, `the service is not installed: run "gatehouse service install"`)
}

// bringUp starts or restarts the gateway. systemd opens a socket only while its service
// is down, and an open socket starts the service: so unless the sockets stay open, both
// are stopped first.
func (s *Service) bringUp(ctx context.Context, keepSockets bool) error {
	if keepSockets {
		return s.control.Restart()
	}
	if _, err := s.run(ctx, "systemctl", "stop", socketUnit); err != nil {
		return err
	}
	if err := s.control.Stop(); err != nil {
		return err
	}
	if _, err := s.run(ctx, "systemctl", "start", socketUnit); err != nil {
		return err
	}
	return s.control.Start()
}

// at returns the path on this machine.
func (s *Service) at(path string) string { return filepath.Join(s.root, path) }
