package installation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kardianos/service"

	"gatehouse/internal/site"
)

// Who has installed the service.
const (
	byNobody  = "no"
	byPackage = "package"
	byUs      = "service install"
	otherwise = "otherwise"
)

// State is how the service stands.
type State struct {
	Installed string         `json:"installed"` // "no", "package", "service install" or "otherwise"
	Running   bool           `json:"running"`   // the gateway is up and ready
	State     string         `json:"state"`     // systemd's word: active, activating, deactivating, inactive, failed…
	Status    string         `json:"status"`    // what the gateway says of itself
	Since     site.Timestamp `json:"since"`     // when it became ready; null when it is not
	Enabled   bool           `json:"enabled"`   // it starts with the system
	Sockets   bool           `json:"sockets"`   // the ports are open
	PID       int            `json:"pid"`       // 0: no process
	Restarts  int            `json:"restarts"`  // how often systemd had to start it again
}

// Status says how the service stands. It needs no root.
func (s *Service) Status(ctx context.Context) (State, error) {
	if err := s.without("status"); err != nil {
		return State{}, err
	}
	now, err := s.states(ctx)
	if err != nil {
		return State{}, err
	}
	// An error of the library means failed or unknown, which systemd words better.
	status, failed := s.control.Status()
	if errors.Is(failed, service.ErrNotInstalled) && !now.loaded(serviceUnit) {
		return State{Installed: byNobody, State: "inactive"}, nil
	}
	installed, err := s.installed()
	if err != nil {
		return State{}, err
	}
	unit := now[serviceUnit]
	// To the library a gateway that starts, or is started again and again, runs too.
	running := status == service.StatusRunning && now.active(serviceUnit)
	state := State{
		Installed: installed, Running: running, State: unit["ActiveState"],
		Enabled: now.enabled(serviceUnit), Sockets: now.active(socketUnit),
		PID: number(unit["MainPID"]), Restarts: number(unit["NRestarts"]),
	}
	if now.running(serviceUnit) {
		state.Status = unit["StatusText"] // systemd keeps the last words of one that was stopped
	}
	if running {
		state.Since = unixTime(unit["ActiveEnterTimestamp"])
	}
	return state, nil
}

// installed says who has installed the unit that counts: ours hides a package's.
func (s *Service) installed() (string, error) {
	whose, err := s.ownerOf(unitPath(serviceUnit))
	if err != nil {
		return "", err
	}
	packaged, err := s.packaged()
	switch {
	case err != nil:
		return "", err
	case whose == ours:
		return byUs, nil
	case whose != nobody:
		return otherwise, nil
	case packaged:
		return byPackage, nil
	default:
		return byNobody, nil
	}
}

// properties are those of a unit that are asked for.
const properties = "LoadState,ActiveState,UnitFileState,StatusText,ActiveEnterTimestamp,MainPID,NRestarts"

// states are the properties of each unit, by its name.
type states map[string]map[string]string

func (s *Service) states(ctx context.Context) (states, error) {
	now := make(states)
	for _, unit := range allUnits() {
		out, err := s.run(ctx, "systemctl", "show", "--timestamp=unix", "--property="+properties, unit)
		if err != nil {
			return nil, fmt.Errorf("asking systemd: %w", err)
		}
		now[unit] = make(map[string]string)
		for line := range strings.Lines(out) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			now[unit][name] = value
		}
	}
	return now, nil
}

// active: it does its work. A gateway that reads its configuration again does.
func (s states) active(unit string) bool {
	state := s[unit]["ActiveState"]
	return state == "active" || state == "reloading"
}

// running: it is up, or on its way up or down.
func (s states) running(unit string) bool {
	state := s[unit]["ActiveState"]
	return state != "inactive" && state != "failed" && state != ""
}

func (s states) enabled(unit string) bool { return s[unit]["UnitFileState"] == "enabled" }

// loaded: there is such a unit.
func (s states) loaded(unit string) bool {
	state := s[unit]["LoadState"]
	return state != "not-found" && state != ""
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // what systemd does not know is none
	return n
}

// unixTime reads "@1700000000"; anything else is no time.
func unixTime(text string) site.Timestamp {
	seconds, err := strconv.ParseInt(strings.TrimPrefix(text, "@"), 10, 64)
	if err != nil {
		return site.Timestamp{}
	}
	return site.At(time.Unix(seconds, 0))
}
