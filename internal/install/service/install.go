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
	"gatehouse/systemd"
)

// Install makes the gateway a service that runs now and starts with the system. It
// returns when the gateway is ready. Where the service is installed already, it writes the
// units again and restarts the gateway. A first installation that fails removes the files
// that it wrote; the user and the folders stay.
func (s *Service) Install(ctx context.Context) error {
	err := s.mayChange("install")
	if err == nil {
		err = s.checkExecutable()
	}
	var before State
	if err == nil {
		before, err = s.Status(ctx)
	}
	if err == nil && before.Installed == byPackage {
		err = fault.New(fault.Conflict, "the Debian package gatehouse has installed the service: update it with apt, or remove it first with \"apt remove gatehouse\"")
	}
	if err == nil {
		_, err = s.present()
	}
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		return err
	}
	began := time.Now()
	created, err := s.writeAll()
	if err == nil {
		err = s.activate(ctx)
	}
	if err == nil {
		return nil
	}
	failure := s.explain(ctx, "install", err, began)
	if before.Installed != byNobody {
		return fault.New(fault.Unavailable, failure.Error()+"\nThe service stays installed. Once that is fixed, run \"gatehouse service install\" again.")
	}
	if err := s.remove(ctx, created); err != nil {
		return fault.New(fault.Unavailable, failure.Error()+"\nNot every file that was written could be removed: "+err.Error())
	}
	return fault.New(fault.Unavailable, failure.Error()+"\nEvery file that was written has been removed. The user gatehouse and its folders stay.")
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

// writeAll writes the files, for everyone to read like the rest of /etc, and returns the
// paths of those that are new. A configuration that is present is the administrator's.
func (s *Service) writeAll() (created []string, err error) {
	files, err := shipped(s.Executable)
	if err != nil {
		return nil, err
	}
	text, err := configs.Files.ReadFile("gatehouse.toml")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration within this program: %w", err)
	}
	for _, f := range append(files, file{configFile, string(text)}) {
		path := s.at(f.path)
		_, absent := os.Lstat(path)
		if absent == nil && f.path == configFile {
			continue
		}
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil { //nolint:gosec // see above
			err = durable.Write(path, []byte(f.text), 0o644)
		}
		if err != nil {
			return created, fmt.Errorf("writing %s: %w", f.path, err)
		}
		if absent != nil {
			created = append(created, f.path)
		}
	}
	return created, nil
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
	_, err := s.run(ctx, "systemctl", "start", "--no-block", systemd.Site)
	return err
}

// Uninstall stops the gateway and removes what Install has written, apart from the
// configuration, the data and the user. After a failure it can be called again.
func (s *Service) Uninstall(ctx context.Context) error {
	if err := s.mayChange("uninstall"); err != nil {
		return err
	}
	now, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if now.Installed == byPackage {
		return fault.New(fault.Conflict, "the Debian package gatehouse has installed the service: remove it with \"apt remove gatehouse\"")
	}
	paths, err := s.present()
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return notInstalled()
	}
	return s.remove(ctx, paths)
}

// remove stops and disables the units and removes files, with the link and the folder
// that belong to them. What does not exist is skipped. An interruption does not end it.
func (s *Service) remove(ctx context.Context, paths []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	// These fail where a unit is missing.
	_, _ = s.run(ctx, "systemctl", append([]string{"stop", systemd.NoticePath, systemd.Notice}, enabledUnits()...)...)
	_, _ = s.run(ctx, "systemctl", append([]string{"disable"}, enabledUnits()...)...)
	var errs []error
	for _, path := range append(paths, issueLink, noticeFolder) {
		errs = append(errs, os.RemoveAll(s.at(path)))
	}
	_, err := s.run(ctx, "systemctl", "daemon-reload")
	_, _ = s.run(ctx, "systemctl", append([]string{"reset-failed", systemd.Redirect}, enabledUnits()...)...) // fails where none has failed
	return errors.Join(append(errs, err)...)
}
