package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kardianos/service"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/systemd"
)

// explainTimeout bounds the search for the reason of a failure, and removeTimeout the
// removal of what a failed installation wrote, also after an interruption.
const (
	explainTimeout = time.Minute
	removeTimeout  = 2 * time.Minute
)

// Config is what a [Service] needs.
type Config struct {
	// Executable is the path of this program, without links: [os.Executable] resolved.
	Executable string
	// Check returns what is wrong with the configuration of the system.
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

// Who has installed the service.
const (
	byNobody  = "no"
	byPackage = "package"
	byHand    = "service install"
)

// State is the state of the service.
type State struct {
	Installed string `json:"installed"` // "no", "package" or "service install"
	Running   bool   `json:"running"`   // whether the gateway is up and ready
	State     string `json:"state"`     // systemd's word: active, activating, deactivating, inactive, failed…
	Enabled   bool   `json:"enabled"`   // whether it starts with the system
	Sockets   bool   `json:"sockets"`   // whether the ports are open
}

// Status returns the state of the service. It needs no root.
func (s *Service) Status(ctx context.Context) (State, error) {
	if err := s.mayUse(); err != nil {
		return State{}, err
	}
	units, err := machine.Machine{Run: s.run}.Units(ctx, []string{"ActiveState", "UnitFileState", "FragmentPath"}, systemd.Service, systemd.Socket)
	if err != nil {
		return State{}, err
	}
	unit := units[0]
	return State{
		Installed: installer(unit["FragmentPath"]), State: unit["ActiveState"],
		Running: unit["ActiveState"] == "active" || unit["ActiveState"] == "reloading",
		Enabled: unit["UnitFileState"] == "enabled", Sockets: units[1]["ActiveState"] == "active",
	}, nil
}

// mayUse returns an error where systemd does not run.
func (s *Service) mayUse() error {
	if info, err := os.Stat(s.at("/run/systemd/system")); err != nil || !info.IsDir() { // sd_booted(3)
		return fault.New(fault.Unavailable, `systemd does not run here, and "gatehouse service" knows no other service manager: have yours run "gatehouse serve", and restart it whenever it ends`)
	}
	return nil
}

// mayChange returns an error where systemd does not run or the caller is not root.
func (s *Service) mayChange(verb string) error {
	if err := s.mayUse(); err != nil || s.uid == 0 {
		return err
	}
	return fault.New(fault.Forbidden, "only root may do this: run \"sudo gatehouse service "+verb+"\"")
}

// installer returns who has installed the unit at path; no path: there is no unit.
func installer(path string) string {
	switch {
	case path == "":
		return byNobody
	case strings.HasPrefix(path, "/usr/lib/"), strings.HasPrefix(path, "/lib/"):
		return byPackage
	default:
		return byHand
	}
}

// Start starts the gateway and its sockets and returns when it is ready.
func (s *Service) Start(ctx context.Context) error {
	return s.order(ctx, "start", func(now State) error {
		if now.Running && now.Sockets {
			return nil
		}
		return s.bringUp(ctx, now.Sockets)
	})
}

// Restart restarts the gateway and returns when it is ready. Sockets that are open stay
// open.
func (s *Service) Restart(ctx context.Context) error {
	return s.order(ctx, "restart", func(now State) error { return s.bringUp(ctx, now.Sockets) })
}

// Stop closes the sockets and stops the gateway. With open sockets the next connection
// would start it again.
func (s *Service) Stop(ctx context.Context) error {
	return s.order(ctx, "stop", func(State) error {
		if _, err := s.run(ctx, "systemctl", "stop", systemd.Socket, systemd.Site); err != nil {
			return err
		}
		return s.control.Stop()
	})
}

// order does what needs root and an installed service.
func (s *Service) order(ctx context.Context, verb string, do func(now State) error) error {
	if err := s.mayChange(verb); err != nil {
		return err
	}
	now, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if now.Installed == byNobody {
		return notInstalled()
	}
	began := time.Now()
	if err := do(now); err != nil {
		return s.explain(ctx, verb, err, began)
	}
	return nil
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
	if _, err := s.run(ctx, "systemctl", "stop", systemd.Socket); err != nil {
		return err
	}
	if err := s.control.Stop(); err != nil {
		return err
	}
	if _, err := s.run(ctx, "systemctl", "start", systemd.Socket); err != nil {
		return err
	}
	return s.control.Start()
}

// busyPort is the message of systemd about a port that another program holds.
var busyPort = regexp.MustCompile(`listening socket \((?:\S*:)?(\d+)\): Address already in use`)

// explain returns the error of a command that failed, with what the gateway or systemd
// has logged since it began: systemctl alone reports an exit status.
func (s *Service) explain(ctx context.Context, verb string, failure error, since time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	_, _ = s.run(ctx, "journalctl", "--sync") // the last lines may be on their way
	// Not --unit, which misses lines of the short-lived process that opens the sockets.
	out, _ := s.run(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=100",
		fmt.Sprintf("--since=@%d", since.Unix()), "UNIT="+systemd.Socket, "+", "_SYSTEMD_UNIT="+systemd.Service)
	reason := failure.Error()
	for line := range strings.Lines(out) {
		if own, is := strings.CutPrefix(strings.TrimSpace(line), "gatehouse: "); is {
			reason = own
		}
	}
	if port := busyPort.FindStringSubmatch(out); port != nil {
		reason = fmt.Sprintf("another program holds port %s: find it with \"ss -ltnp\" and stop it, or name other ports in %s%s.d/ports.conf and in %s",
			port[1], unitFolder, systemd.Socket, configFile)
	}
	return fault.New(fault.Unavailable, verb+" failed: "+reason+"\nThe log has more: journalctl --unit=gatehouse.service --unit=gatehouse.socket --lines=50")
}

// at returns the path on this machine.
func (s *Service) at(path string) string { return filepath.Join(s.root, path) }
