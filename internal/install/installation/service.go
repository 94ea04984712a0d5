package installation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/fault"
)

// Config is what a [Service] needs.
type Config struct {
	// Executable is the path of this program, without links: [os.Executable] resolved.
	Executable string
	// Check says what is wrong with the configuration of the system; nil: nothing is
	// asked.
	Check func() error
}

// Service is the gateway as a service of this machine. Its methods are for one caller
// at a time. Each fails where systemd does not run, with the kind unavailable and a
// sentence that says what can be done there.
type Service struct {
	root       string // before every path; "" but in tests
	executable string
	check      func() error
	uid        int // of this process
	trusted    int // the user to whom the program must belong: root, but in tests
	control    control
	run        runner
	now        func() time.Time
	calls      sync.WaitGroup // of the library, also those left behind
}

// Change is something that was done.
type Change struct {
	Kind string `json:"kind"` // created, updated, removed, enabled, started, restarted, stopped
	What string `json:"what"` // a file, a unit or a user
}

// New prepares the service; it touches nothing.
func New(cfg Config) (*Service, error) {
	t, err := template(serviceUnit)
	if err != nil {
		return nil, err
	}
	c, err := newControl(cfg.Executable, t)
	if err != nil {
		return nil, err
	}
	return &Service{
		executable: cfg.Executable, check: cfg.Check, uid: os.Geteuid(),
		control: c, run: runProgram, now: time.Now,
	}, nil
}

// Start starts the gateway and its sockets, and returns when it is ready. What runs
// already stays as it is.
func (s *Service) Start(ctx context.Context) ([]Change, error) {
	return s.command(ctx, "start", func(now states) ([]Change, error) {
		if now.active(serviceUnit) && now.active(socketUnit) {
			return nil, nil
		}
		return []Change{{"started", serviceUnit}}, s.bringUp(ctx, now, false)
	})
}

// Restart starts the gateway anew, or at all, and returns when it is ready. The
// sockets stay open meanwhile.
func (s *Service) Restart(ctx context.Context) ([]Change, error) {
	return s.command(ctx, "restart", func(now states) ([]Change, error) {
		return []Change{{"restarted", serviceUnit}}, s.bringUp(ctx, now, false)
	})
}

// Stop stops the gateway and closes its sockets: with them open the next connection
// would start it again.
func (s *Service) Stop(ctx context.Context) ([]Change, error) {
	return s.command(ctx, "stop", func(now states) ([]Change, error) {
		return []Change{{"stopped", socketUnit}, {"stopped", serviceUnit}}, s.bringDown(ctx, now)
	})
}

// command does what needs systemd, root and an installed service.
func (s *Service) command(ctx context.Context, verb string, do func(states) ([]Change, error)) ([]Change, error) {
	if err := s.may(verb); err != nil {
		return nil, err
	}
	now, err := s.states(ctx)
	if err != nil {
		return nil, err
	}
	if !now.loaded(serviceUnit) {
		return nil, notInstalled()
	}
	began := s.now()
	changes, err := do(now)
	if err != nil {
		return nil, fault.New(fault.Unavailable, s.explain(ctx, err, began)+"\n"+logHint)
	}
	return changes, nil
}

func notInstalled() error {
	return fault.New(fault.NotFound, `the service is not installed: run "gatehouse service install"`)
}

// may refuses where there is no systemd, and whoever is not root.
func (s *Service) may(verb string) error {
	if err := s.without(verb); err != nil {
		return err
	}
	if s.uid != 0 {
		return fault.New(fault.Forbidden, "only root may do this: run \"sudo gatehouse service "+verb+"\"")
	}
	return nil
}

// bringUp makes the sockets and the gateway run, with the units as systemd has them
// now. systemd opens a socket only while its service is down, so where the sockets
// are closed, or are to be opened anew, the gateway is stopped first.
func (s *Service) bringUp(ctx context.Context, now states, anew bool) error {
	if now.active(socketUnit) && !anew {
		return s.waited(ctx, "starting", s.control.Restart)
	}
	if now.running(serviceUnit) {
		if err := s.waited(ctx, "stopping", s.control.Stop); err != nil {
			return err
		}
	}
	if _, err := s.run(ctx, "systemctl", "restart", socketUnit); err != nil {
		return err
	}
	return s.waited(ctx, "starting", s.control.Start)
}

// waited runs a call of the library, which knows no deadline, until ctx ends. A call
// that is left behind only waits for systemd to be done.
func (s *Service) waited(ctx context.Context, doing string, call func() error) error {
	done := make(chan error, 1)
	s.calls.Go(func() { done <- call() })
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, serviceUnit, err)
	}
	return nil
}

// bringDown stops the sockets first, so that nothing starts the gateway again. What
// is not there needs no stopping.
func (s *Service) bringDown(ctx context.Context, now states) error {
	for _, unit := range []string{siteUnit, socketUnit} {
		if !now.loaded(unit) {
			continue
		}
		if _, err := s.run(ctx, "systemctl", "stop", unit); err != nil {
			return err
		}
	}
	if !now.loaded(serviceUnit) {
		return nil
	}
	return s.waited(ctx, "stopping", s.control.Stop)
}

// at gives the path on this machine.
func (s *Service) at(path string) string { return filepath.Join(s.root, path) }

// owner is who has installed a unit.
type owner int

const (
	nobody  owner = iota
	ours          // "gatehouse service install"
	linked        // a link, such as that to /dev/null by which a unit is masked
	foreign       // somebody else
)

// ownerOf reads whose a file is. An empty one is the rest of a write that a power cut
// has ended: it is nobody's, and stands in the way.
func (s *Service) ownerOf(path string) (owner, error) {
	before, err := snap(s.at(path))
	switch {
	case err != nil:
		return nobody, err
	case before.absent():
		return nobody, nil
	case before.info.Mode()&fs.ModeSymlink != 0:
		return linked, nil
	case before.info.IsDir():
		return foreign, nil
	case len(before.text) == 0, strings.HasPrefix(string(before.text), mark):
		return ours, nil
	default:
		return foreign, nil
	}
}

// packaged reports whether a package has installed the service.
func (s *Service) packaged() (bool, error) {
	for _, folder := range []string{"/usr/lib/systemd/system/", "/lib/systemd/system/"} {
		_, err := os.Lstat(s.at(folder + serviceUnit))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("looking for the unit of a package: %w", err)
		}
	}
	return false, nil
}
