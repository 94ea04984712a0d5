package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gatehouse/internal/fault"
)

// Uninstall stops the gateway and removes what Install has made, but for the
// configuration, the data and the user. It gives what was changed. After a failure it
// can be run again.
func (s *Service) Uninstall(ctx context.Context) ([]Change, error) {
	paths, err := s.mayUninstall()
	if err != nil {
		return nil, err
	}
	began := s.now()
	now, err := s.states(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.bringDown(ctx, now); err != nil {
		return nil, fault.New(fault.Unavailable, s.explain(ctx, err, began)+"\n"+logHint)
	}
	var changes []Change
	if now.running(serviceUnit) {
		changes = append(changes, Change{"stopped", serviceUnit})
	}
	if err := s.removeService(ctx, paths); err != nil {
		return nil, err
	}
	// The units go first, and systemd is told: a run that fails until then leaves
	// something by which the next one knows that there is more to do.
	isUnit := func(path string) bool { return strings.HasPrefix(path, unitFolder+"/") }
	if err := s.removeAll(paths, isUnit); err != nil {
		return nil, err
	}
	if _, err := s.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return nil, err
	}
	if err := s.removeAll(paths, func(path string) bool { return !isUnit(path) }); err != nil {
		return nil, err
	}
	for _, path := range paths {
		changes = append(changes, Change{"removed", path})
	}
	_, _ = s.run(ctx, "systemctl", "reset-failed", serviceUnit, socketUnit, siteUnit) // it is an error that they have not failed
	return changes, nil
}

// mayUninstall gives what there is to remove.
func (s *Service) mayUninstall() (paths []string, err error) {
	if err := s.may("uninstall"); err != nil {
		return nil, err
	}
	installed, err := s.installed()
	if err != nil {
		return nil, err
	}
	if installed == otherwise {
		return nil, fault.New(fault.Conflict, unitPath(serviceUnit)+" was not written by \"gatehouse service install\": remove it as it was installed")
	}
	for _, path := range ownFiles() {
		whose, err := s.ownerOf(path)
		if err != nil {
			return nil, err
		}
		if whose == ours {
			paths = append(paths, path)
		}
	}
	switch {
	case installed == byPackage:
		return nil, fault.New(fault.Conflict, "the Debian package gatehouse has installed the service: remove it with \"apt remove gatehouse\"")
	case len(paths) == 0:
		return nil, notInstalled()
	}
	link, err := snap(s.at(issueLink))
	if err != nil {
		return nil, err
	}
	if !link.absent() {
		paths = append(paths, issueLink)
	}
	return paths, nil
}

func (s *Service) removeAll(paths []string, which func(string) bool) error {
	for _, path := range paths {
		if !which(path) {
			continue
		}
		if err := remove(s.at(path)); err != nil {
			return err
		}
	}
	return nil
}

// removeService disables the units and removes that of the service, as far as they
// are among the paths.
func (s *Service) removeService(ctx context.Context, paths []string) error {
	for _, unit := range []string{socketUnit, siteUnit} {
		if !slices.Contains(paths, unitPath(unit)) {
			continue
		}
		if err := s.disable(ctx, unit); err != nil {
			return err
		}
	}
	unit, err := snap(s.at(unitPath(serviceUnit)))
	if err != nil {
		return err
	}
	if len(unit.text) == 0 {
		return s.disable(ctx, serviceUnit) // the library cannot without the unit
	}
	if err := s.control.Uninstall(); err != nil {
		return fmt.Errorf("uninstalling %s: %w", serviceUnit, err)
	}
	return nil
}
