package firstboot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gatehouse/internal/setup/tomlfile"
)

// passwordFiles are the files with passwords that are removed with those of the site
// file: see [boot.removes].
func (b *boot) passwordFiles() []string {
	return slices.DeleteFunc(slices.Clone(b.plan.site.PasswordFiles), func(path string) bool { return !b.removes(path) })
}

// removes reports whether path is a password file that was put on the card for this
// purpose alone: it lies beside the site file and is named for it. Any other file may be
// one that the board needs to start.
func (b *boot) removes(path string) bool {
	extension := filepath.Ext(path)
	return filepath.Dir(path) == parentOf(b.path) && (extension == ".password" || extension == ".secret")
}

// noteLeft warns of password files on the card that are not removed.
func (b *boot) noteLeft() {
	for _, path := range b.plan.site.PasswordFiles {
		if filepath.Dir(path) == parentOf(b.path) && !b.removes(path) {
			b.warn("The password in %s is not wiped: only files beside the site file that are called *.password or *.secret are removed.", path)
		}
	}
}

// wipe leaves a copy of the site file without its secrets, and overwrites and removes the
// file and its password files. Before it is overwritten the site file is renamed, so that
// under its own name it is always whole, and is never applied again when the power is cut
// on the way. Done twice, it does no harm.
func (b *boot) wipe() error {
	if err := b.wipeSecrets(); err != nil {
		b.noteUnwiped(problemsOf(err))
		return err
	}
	b.noteUnwiped(nil)
	if err := b.remove(b.statePath()); err != nil {
		return err
	}
	return b.remove(b.wipingPath())
}

// wipeSecrets is wipe without what is left of it in the end.
func (b *boot) wipeSecrets() error {
	for _, path := range b.state.Others {
		if !b.removes(path) {
			continue // no run of this program has written that
		}
		if err := b.wipeFile(path); err != nil {
			return unwiped(path, err)
		}
	}
	if b.path != b.wipingPath() {
		if err := b.retire(); err != nil {
			return unwiped(b.path, err)
		}
	}
	if err := b.blank(b.wipingPath()); err != nil {
		return unwiped(b.wipingPath(), err)
	}
	return nil
}

// retire writes the copy without secrets and renames the site file to the name under which it
// is wiped.
func (b *boot) retire() error {
	data, err := readSite(b.path)
	if err != nil {
		return err
	}
	d, err := tomlfile.Decode(b.path, data)
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	redacted, err := d.Redacted()
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	if err := b.disk.Write(b.donePath(), redacted, 0o600, ownGroup); err != nil {
		return err //nolint:wrapcheck // as above
	}
	return b.disk.Rename(b.path, b.wipingPath()) //nolint:wrapcheck // as above
}

// wipeFile overwrites and removes a file; one that is not there is done.
func (b *boot) wipeFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() {
		err = b.blank(path)
	}
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	return b.disk.Remove(path) //nolint:wrapcheck // unwiped words it
}

// blank overwrites the bytes of a file where they are.
func (b *boot) blank(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	return b.disk.Overwrite(path, bytes.Repeat([]byte(" "), int(info.Size()))) //nolint:wrapcheck // as above
}

// unwiped says that all is done but that secrets are left.
func unwiped(path string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return refuse(path, "everything was set up, but the passwords in this file could not be wiped, because the partition is read-only: "+
			"run \"mount -o remount,rw %s\" and then \"gatehouse first-boot\"", parentOf(path))
	}
	return refuse(path, "everything was set up, but the passwords in this file could not be wiped (%s): delete it by hand", cause(err))
}
