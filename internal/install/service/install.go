package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/configs"
	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// undoTimeout bounds the removal of what a failed installation wrote, also after an
// interruption.
const undoTimeout = 2 * time.Minute

// Install makes the gateway a service that runs now and starts with the system. It
// returns when the gateway is ready, with what was changed. Where the service is
// installed already, it updates the units and restarts the gateway. A first installation
// that fails removes the files that it wrote; the user and the folders stay.
func (s *Service) Install(ctx context.Context) ([]Change, error) {
	if err := s.may("install"); err != nil {
		return nil, err
	}
	if err := s.checkExecutable(); err != nil {
		return nil, err
	}
	before, err := s.mayInstall(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	changes, err := s.writeAll()
	if err == nil {
		err = s.activate(ctx)
	}
	if err != nil {
		return nil, s.giveUp(ctx, before, changes, s.explain(ctx, "install", err, began))
	}
	if before.Running {
		return append(changes, Change{"restarted", serviceUnit}), nil
	}
	return append(changes, Change{"started", serviceUnit}), nil
}

// mayInstall checks everything that can be known beforehand, and returns the state
// before.
func (s *Service) mayInstall(ctx context.Context) (State, error) {
	state, err := s.state(ctx)
	if err != nil {
		return state, err
	}
	if state.Installed == byPackage {
		return state, fault.New(fault.Conflict, "the Debian package gatehouse has installed the service: update it with apt, or remove it first with \"apt remove gatehouse\"")
	}
	if _, err := s.present(); err != nil {
		return state, err
	}
	if s.Check == nil {
		return state, nil
	}
	return state, s.Check()
}

// present returns the paths of the files that an installation has written. Conflict where
// one of the paths has something else: a link, by which a unit is masked, or a file that
// was not written here.
func (s *Service) present() ([]string, error) {
	files, err := shipped(s.Executable)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range files {
		text, err := os.ReadFile(s.at(f.path))
		info, absent := os.Lstat(s.at(f.path))
		switch {
		case errors.Is(absent, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("reading what is installed: %w", err)
		case !info.Mode().IsRegular(), !strings.HasPrefix(string(text), mark):
			return nil, fault.New(fault.Conflict, fmt.Sprintf("%s was not written by \"gatehouse service install\": remove it first (where it is a link: systemctl unmask %s)", f.path, filepath.Base(f.path)))
		default:
			paths = append(paths, f.path)
		}
	}
	return paths, nil
}

// writeAll writes the files that are not as they should be.
func (s *Service) writeAll() (changes []Change, err error) {
	files, err := shipped(s.Executable)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(s.at(configFile)); errors.Is(err, fs.ErrNotExist) { // else it is the administrator's
		text, err := configs.Files.ReadFile("gatehouse.toml")
		if err != nil {
			return nil, fmt.Errorf("reading the configuration within this program: %w", err)
		}
		files = append(files, file{configFile, string(text)})
	}
	for _, f := range files {
		before, err := os.ReadFile(s.at(f.path))
		kind := "updated"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			kind = "created"
		case err != nil:
			return changes, fmt.Errorf("reading what is installed: %w", err)
		case string(before) == f.text:
			continue
		}
		if err := write(s.at(f.path), f.text); err != nil {
			return changes, fmt.Errorf("writing %s: %w", f.path, err)
		}
		changes = append(changes, Change{kind, f.path})
	}
	return changes, nil
}

// activate has systemd create the user and the folders, and enable and start the units.
// A site file that is present is applied then: that may take minutes, and its result is
// written beside the file.
func (s *Service) activate(ctx context.Context) error {
	for _, command := range [][]string{
		{"systemd-sysusers", s.at(usersFile)},
		{"systemd-tmpfiles", "--create", s.at(foldersFile)},
		{"systemctl", "daemon-reload"},
		append([]string{"systemctl", "enable"}, enabledUnits()...),
	} {
		if _, err := s.run(ctx, command[0], command[1:]...); err != nil {
			return err
		}
	}
	if err := s.bringUp(ctx, false); err != nil {
		return err
	}
	_, err := s.run(ctx, "systemctl", "start", "--no-block", siteUnit)
	return err
}

// giveUp removes the files that a first installation created, and returns the error of
// the installation with what was removed.
func (s *Service) giveUp(ctx context.Context, before State, changes []Change, failure error) error {
	if before.Installed != byNobody {
		return fault.New(fault.Unavailable, failure.Error()+"\nThe service stays installed. Once that is fixed, run \"gatehouse service install\" again.")
	}
	var paths []string
	for _, c := range changes {
		if c.Kind == "created" {
			paths = append(paths, c.What)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := s.remove(ctx, paths); err != nil {
		return fault.New(fault.Unavailable, failure.Error()+"\nNot every file that was written could be removed: "+err.Error())
	}
	return fault.New(fault.Unavailable, failure.Error()+"\nEvery file that was written has been removed. The user gatehouse and its folders stay.")
}

// Uninstall stops the gateway and removes what Install has written, apart from the
// configuration, the data and the user. It returns what was changed. After a failure it
// can be called again.
func (s *Service) Uninstall(ctx context.Context) ([]Change, error) {
	if err := s.may("uninstall"); err != nil {
		return nil, err
	}
	state, err := s.state(ctx)
	if err != nil {
		return nil, err
	}
	if state.Installed == byPackage {
		return nil, fault.New(fault.Conflict, "the Debian package gatehouse has installed the service: remove it with \"apt remove gatehouse\"")
	}
	paths, err := s.present()
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, notInstalled()
	}
	if err := s.remove(ctx, paths); err != nil {
		return nil, err
	}
	changes := []Change{{"stopped", serviceUnit}}
	for _, path := range paths {
		changes = append(changes, Change{"removed", path})
	}
	return changes, nil
}

// remove stops and disables the units and removes files, with the link and the folder
// that belong to them. What does not exist is skipped.
func (s *Service) remove(ctx context.Context, paths []string) error {
	// These fail where a unit is missing.
	_, _ = s.run(ctx, "systemctl", append([]string{"stop", noticePath, noticeUnit}, enabledUnits()...)...)
	_, _ = s.run(ctx, "systemctl", append([]string{"disable"}, enabledUnits()...)...)
	var errs []error
	for _, path := range append(paths, issueLink, noticeFolder) {
		errs = append(errs, os.RemoveAll(s.at(path)))
	}
	_, err := s.run(ctx, "systemctl", "daemon-reload")
	_, _ = s.run(ctx, "systemctl", append([]string{"reset-failed", redirectUnit}, enabledUnits()...)...) // fails where none has failed
	return errors.Join(append(errs, err)...)
}

// write writes a file for everyone to read, like the rest of /etc.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	return durable.Write(path, []byte(text), 0o644)
}
