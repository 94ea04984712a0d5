package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// units writes the units, that of the service through the library.
func (in *installing) units(context.Context) error {
	// Undone once the units are as they were: systemd reads them, and what ran before
	// runs again.
	in.ledger.enter("starting the gateway again", in.startAgain)
	in.ledger.enter("having systemd read its units", in.reload)
	for _, unit := range []string{redirectUnit, socketUnit, siteUnit, noticeUnit, noticePath} {
		text, err := unitText(unit, in.executable)
		if err != nil {
			return err
		}
		changed, err := in.file(unitPath(unit), text)
		if err != nil {
			return err
		}
		in.sockets = in.sockets || changed && (unit == socketUnit || unit == redirectUnit)
	}
	return in.serviceUnit()
}

func (in *installing) reload(ctx context.Context) error {
	_, err := in.run(ctx, "systemctl", "daemon-reload")
	_, _ = in.run(ctx, "systemctl", "reset-failed", socketUnit, serviceUnit) // it is an error that they have not failed
	return err
}

func (in *installing) startAgain(ctx context.Context) error {
	for _, unit := range []string{socketUnit, serviceUnit} {
		if !in.before.running(unit) {
			continue
		}
		if _, err := in.run(ctx, "systemctl", "start", unit); err != nil {
			return err
		}
	}
	return nil
}

// serviceUnit has the library write and enable the unit. It wants the place to be
// free, syncs nothing, and leaves what it has begun when it fails: so the place is
// cleared for it, and what it wrote is compared with what it should have written.
func (in *installing) serviceUnit() error {
	path := unitPath(serviceUnit)
	text, err := unitText(serviceUnit, in.executable)
	if err != nil {
		return err
	}
	before, err := in.keep(path)
	if err != nil || in.same(before, text) {
		return err
	}
	in.disableOnUndo(serviceUnit)
	if err := remove(in.at(path)); err != nil {
		return err
	}
	// It is not broken off: what it goes on to do could not be undone.
	if err := in.control.Install(); err != nil {
		return fmt.Errorf("installing %s: %w", serviceUnit, err)
	}
	written, err := os.ReadFile(in.at(path))
	if err != nil {
		return fmt.Errorf("reading what was written: %w", err)
	}
	if string(written) != text {
		return fmt.Errorf("%s is not what it should be", path)
	}
	if err := errors.Join(os.Chmod(in.at(path), 0o644), flush(in.at(path)), flush(in.at(unitFolder))); err != nil { //nolint:gosec // a unit is for everyone to read
		return err
	}
	in.noteFile(path, before)
	return nil
}

// disableOnUndo enters that a unit which is not enabled will not be. It is undone
// while the unit still stands there, because systemctl reads from it what to remove.
func (in *installing) disableOnUndo(unit string) {
	if in.before.enabled(unit) {
		return
	}
	in.ledger.enter("disabling "+unit, func(ctx context.Context) error { return in.disable(ctx, unit) })
}

// disable has systemd forget that a unit starts with the system. What systemctl
// leaves, because the unit is gone or half written, is removed by hand.
func (s *Service) disable(ctx context.Context, unit string) error {
	_, failed := s.run(ctx, "systemctl", "disable", unit)
	if failed == nil {
		return nil
	}
	links, err := filepath.Glob(s.at(unitFolder + "/*.wants/" + unit))
	if err != nil {
		return fmt.Errorf("looking for links to the unit: %w", err)
	}
	for _, link := range links {
		err = errors.Join(err, remove(link))
		_ = os.Remove(filepath.Dir(link)) // as systemctl does; it fails where more is in it
	}
	return err
}

// enable has the units start with the system.
func (in *installing) enable(ctx context.Context) error {
	off := slices.DeleteFunc(allUnits(), in.before.enabled)
	for _, unit := range off {
		in.disableOnUndo(unit)
	}
	if len(off) > 0 {
		if _, err := in.run(ctx, "systemctl", append([]string{"enable"}, off...)...); err != nil {
			return err
		}
	}
	if _, err := in.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	for _, unit := range off {
		in.done("enabled", unit)
	}
	return nil
}

// stopAll stops what start has started. A start that was broken off may reach systemd
// only after the first attempt, which otherwise ends it.
func (in *installing) stopAll(ctx context.Context) (err error) {
	for range 2 {
		_, err = in.run(ctx, "systemctl", "stop", siteUnit, socketUnit, serviceUnit)
		in.calls.Wait()
	}
	return err
}

// start starts the gateway, anew if it runs: its program may be another one.
func (in *installing) start(ctx context.Context) error {
	in.ledger.enter("stopping the gateway", in.stopAll)
	if err := in.bringUp(ctx, in.before, in.sockets); err != nil {
		return err
	}
	kind := "started"
	if in.before.running(serviceUnit) {
		kind = "restarted"
	}
	in.done(kind, serviceUnit)
	// A site file that lies ready is applied. That takes as long as it takes, and its
	// result stands beside the file.
	_, err := in.run(ctx, "systemctl", "start", "--no-block", siteUnit)
	return err
}
