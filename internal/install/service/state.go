package service

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
)

// Who has installed the service.
const (
	byNobody  = "no"
	byPackage = "package"
	byUs      = "service install"
	byOthers  = "otherwise"
)

// State is the state of the service.
type State struct {
	Installed string `json:"installed"` // "no", "package", "service install" or "otherwise"
	Running   bool   `json:"running"`   // whether the gateway is up and ready
	State     string `json:"state"`     // systemd's word: active, activating, deactivating, inactive, failed…
	Enabled   bool   `json:"enabled"`   // whether it starts with the system
	Sockets   bool   `json:"sockets"`   // whether the ports are open
}

// Status returns the state of the service. It needs no root.
func (s *Service) Status(ctx context.Context) (State, error) {
	if err := s.may("status"); err != nil {
		return State{}, err
	}
	return s.state(ctx)
}

func (s *Service) state(ctx context.Context) (State, error) {
	units, err := machine.Machine{Run: s.run}.Units(ctx, []string{"ActiveState", "UnitFileState", "FragmentPath"}, serviceUnit, socketUnit)
	if err != nil {
		return State{}, err
	}
	unit := units[0]
	return State{
		Installed: s.installer(unit["FragmentPath"]), State: unit["ActiveState"],
		Running: unit["ActiveState"] == "active" || unit["ActiveState"] == "reloading",
		Enabled: unit["UnitFileState"] == "enabled", Sockets: units[1]["ActiveState"] == "active",
	}, nil
}

// installer returns who has installed the unit at path; no path: there is no unit.
func (s *Service) installer(path string) string {
	text, err := os.ReadFile(s.at(path))
	switch {
	case path == "":
		return byNobody
	case strings.HasPrefix(path, "/usr/lib/"), strings.HasPrefix(path, "/lib/"):
		return byPackage
	case err == nil && strings.HasPrefix(string(text), mark):
		return byUs
	default:
		return byOthers
	}
}

// busyPort is the message of systemd about a port that another program holds.
var busyPort = regexp.MustCompile(`listening socket \((?:\S*:)?(\d+)\): Address already in use`)

// explain returns the error of a command that failed, with what the gateway or systemd
// has logged since it began: systemctl alone reports an exit status.
func (s *Service) explain(ctx context.Context, verb string, failure error, since time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	_, _ = s.run(ctx, "journalctl", "--sync") // the last lines may be on their way
	// Not --unit, which misses lines of the short-lived process that opens the sockets.
	out, _ := s.run(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=100",
		fmt.Sprintf("--since=@%d", since.Unix()), "UNIT="+socketUnit, "+", "_SYSTEMD_UNIT="+serviceUnit)
	reason := failure.Error()
	for line := range strings.Lines(out) {
		if own, is := strings.CutPrefix(strings.TrimSpace(line), "gatehouse: "); is {
			reason = own
		}
	}
	if port := busyPort.FindStringSubmatch(out); port != nil {
		reason = fmt.Sprintf("another program holds port %s: find it with \"ss -ltnp\" and stop it, or name other ports in %s%s.d/ports.conf and in %s",
			port[1], unitFolder, socketUnit, configFile)
	}
	return fault.New(fault.Unavailable, verb+" failed: "+reason+"\nThe log has more: journalctl --unit=gatehouse.service --unit=gatehouse.socket --lines=50")
}
