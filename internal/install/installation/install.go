package installation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/fault"
)

// undoTimeout bounds the way back, which goes on after an interruption.
const undoTimeout = 5 * time.Minute

// Install makes the gateway a service that runs now and starts with the system, and
// returns when it is ready, with what was changed. Where it is installed already, it
// brings the units up to date and starts the gateway anew. When anything fails, all
// that was done is undone, and the error says what failed and where to read more.
func (s *Service) Install(ctx context.Context) ([]Change, error) {
	if err := s.mayInstall(); err != nil {
		return nil, err
	}
	before, err := s.states(ctx)
	if err != nil {
		return nil, err
	}
	in := &installing{Service: s, before: before, began: s.now()}
	for _, step := range in.steps() {
		if err := step.do(ctx); err != nil {
			return nil, in.giveUp(ctx, step, err)
		}
	}
	return in.changes, nil
}

// mayInstall looks at everything that can be seen beforehand.
func (s *Service) mayInstall() error {
	if err := s.may("install"); err != nil {
		return err
	}
	packaged, err := s.packaged()
	if err != nil {
		return err
	}
	if packaged {
		return fault.New(fault.Conflict, "the Debian package gatehouse has installed the service: bring it up to date with apt, or remove it first with \"apt remove gatehouse\"")
	}
	for _, path := range ownFiles() {
		if err := s.mayWrite(path); err != nil {
			return err
		}
	}
	if err := s.checkExecutable(); err != nil {
		return err
	}
	if s.check == nil {
		return nil
	}
	return s.check()
}

// mayWrite refuses to write over what others have written.
func (s *Service) mayWrite(path string) error {
	whose, err := s.ownerOf(path)
	switch {
	case err != nil:
		return err
	case whose == linked:
		return fault.New(fault.Conflict, fmt.Sprintf("%s is a link, which keeps the unit from being used: run \"systemctl unmask %s\" first", path, filepath.Base(path)))
	case whose == foreign:
		return fault.New(fault.Conflict, path+" was not written by \"gatehouse service install\": move it away first")
	default:
		return nil
	}
}

// installing is one installation on its way.
type installing struct {
	*Service
	before  states
	began   time.Time
	ledger  ledger
	changes []Change
	sockets bool // the unit of the sockets has changed
}

// step is a part of an installation. It enters into the ledger how it is undone.
type step struct {
	what   string
	do     func(context.Context) error
	logged bool // why it fails stands in the log
}

func (in *installing) steps() []step {
	return []step{
		{"making the user " + user, in.user, false},
		{"making the folders", in.folders, false},
		{"writing the configuration", in.configuration, false},
		{"writing the units", in.units, false},
		{"enabling the units", in.enable, false},
		{"starting the gateway", in.start, true},
	}
}

// giveUp undoes everything and says what has failed.
func (in *installing) giveUp(ctx context.Context, failed step, failure error) error {
	var text string
	switch {
	case ctx.Err() != nil:
		text = "interrupted while " + failed.what
	case failed.logged:
		text = failed.what + " failed: " + in.explain(ctx, failure, in.began)
	default:
		text = failed.what + " failed: " + failure.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := in.ledger.undo(ctx); err != nil {
		text += "\nnot everything could be put back as it was: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	} else {
		text += "\nEverything was put back as it was."
	}
	if failed.logged {
		text += "\n" + logHint
	}
	return fault.New(fault.Unavailable, text)
}

func (in *installing) done(kind, what string) { in.changes = append(in.changes, Change{kind, what}) }

// keep enters what stands at a path, so that it will stand there again.
func (in *installing) keep(path string) (snapshot, error) {
	s, err := snap(in.at(path))
	if err != nil {
		return s, err
	}
	in.ledger.enter("putting "+path+" back", func(context.Context) error { return s.restore() })
	return s, nil
}

// folder makes a folder that systems have, but need not.
func (in *installing) folder(path string) error {
	s, err := in.keep(path)
	if err != nil || !s.absent() {
		return err
	}
	return os.Mkdir(in.at(path), 0o755) //nolint:gosec // as all of /etc, for everyone to read
}

// file writes a file where it is not as it should be.
func (in *installing) file(path, text string) (changed bool, err error) {
	if err := in.folder(filepath.Dir(path)); err != nil {
		return false, err
	}
	before, err := in.keep(path)
	if err != nil || in.same(before, text) {
		return false, err
	}
	if err := write(in.at(path), []byte(text), 0o644); err != nil {
		return false, err
	}
	in.noteFile(path, before)
	return true, nil
}

func (*installing) same(s snapshot, text string) bool {
	return !s.absent() && s.info.Mode().Perm() == 0o644 && string(s.text) == text
}

func (in *installing) noteFile(path string, before snapshot) {
	if before.absent() {
		in.done("created", path)
	} else {
		in.done("updated", path)
	}
}

// user makes the user as the packages do, or with the older tool.
func (in *installing) user(ctx context.Context) error {
	had, err := in.hasUser()
	if err != nil {
		return err
	}
	in.ledger.enter("removing the user "+user, func(ctx context.Context) error {
		if now, err := in.hasUser(); err != nil || had || !now {
			return err
		}
		_, err := in.run(ctx, "userdel", user)
		return err
	})
	text, err := shipped("gatehouse.sysusers")
	if err != nil {
		return err
	}
	if _, err := in.file(usersFile, text); err != nil {
		return err
	}
	_, err = in.run(ctx, "systemd-sysusers", in.at(usersFile))
	if errors.Is(err, exec.ErrNotFound) && !had {
		_, err = in.run(ctx, "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", dataFolder,
			"--shell", "/usr/sbin/nologin", "--comment", "Gatehouse door gateway", user)
	}
	switch {
	case errors.Is(err, exec.ErrNotFound) && !had:
		return fmt.Errorf("this system has neither systemd-sysusers nor useradd: make a system user and a group, both named %s, and install again", user)
	case err != nil && !errors.Is(err, exec.ErrNotFound):
		return err
	}
	if now, err := in.hasUser(); err != nil || had || !now {
		return err // or a directory service knows the user
	}
	in.done("created", "user "+user)
	return nil
}

func (in *installing) hasUser() (bool, error) {
	text, err := os.ReadFile(in.at("/etc/passwd"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading the users: %w", err)
	}
	return strings.Contains("\n"+string(text), "\n"+user+":"), nil
}

// folders makes them as the packages do: with their rights, and at every start of
// the system.
func (in *installing) folders(ctx context.Context) error {
	data, err := snap(in.at(dataFolder))
	if err != nil {
		return err
	}
	in.ledger.enter("putting "+dataFolder+" back", func(context.Context) error {
		if data.absent() {
			return os.RemoveAll(data.path) // the gateway may have begun to use it
		}
		return data.restore()
	})
	missing := []string{}
	for _, path := range []string{configFolder, configFolder + "/conf.d", configFolder + "/credentials", issueFolder, issueLink} {
		before, err := in.keep(path)
		if err != nil {
			return err
		}
		if before.absent() && strings.HasPrefix(path, configFolder) {
			missing = append(missing, path)
		}
	}
	if data.absent() {
		missing = append(missing, dataFolder)
	}
	text, err := shipped("gatehouse.tmpfiles")
	if err != nil {
		return err
	}
	if _, err := in.file(foldersFile, text); err != nil {
		return err
	}
	if _, err := in.run(ctx, "systemd-tmpfiles", "--create", in.at(foldersFile)); err != nil {
		return err
	}
	for _, path := range missing {
		in.done("created", path)
	}
	return nil
}

// configuration is written where there is none; after that it is the owner's.
func (in *installing) configuration(context.Context) error {
	before, err := snap(in.at(configFile))
	if err != nil || !before.absent() {
		return err
	}
	text, err := shippedConfiguration()
	if err != nil {
		return err
	}
	_, err = in.file(configFile, text)
	return err
}
