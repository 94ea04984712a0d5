package firstboot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// passwordFiles are the files with passwords that are removed with those of the site
// file: see [boot.removes].
func (b *boot) passwordFiles() []string {
	return slices.DeleteFunc(slices.Clone(b.plan.mixed.PasswordFiles), func(path string) bool { return !b.removes(path) })
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
	for _, path := range b.plan.mixed.PasswordFiles {
		if filepath.Dir(path) == parentOf(b.path) && !b.removes(path) {
			b.warn("The password in %s is not wiped: only files beside the site file that are called *.password or *.secret are removed.", path)
		}
	}
}

// wipe does what b.state leaves to do: it overwrites the secrets where they stand,
// removes password files, and gives the site file another name, so that it is not
// applied again. Done twice, it does no harm.
func (b *boot) wipe() error {
	w := b.state.Wiping
	for _, path := range w.Others {
		if !b.removes(path) {
			continue // no run of this program has written that
		}
		if err := b.wipePasswordFile(path); err != nil {
			return unwiped(path, err)
		}
	}
	if err := b.disk.Overwrite(w.Path, []byte(w.Text)); err != nil {
		return unwiped(w.Path, err)
	}
	if present, err := os.ReadFile(w.Path); err != nil || !bytes.Equal(present, []byte(w.Text)) {
		return unwiped(w.Path, errors.Join(errors.New("it holds something else than was written"), err))
	}
	b.settleResult()
	if err := b.disk.Rename(w.Path, b.donePath()); err != nil {
		return unwiped(w.Path, err)
	}
	if err := b.disk.Remove(b.statePath()); err != nil {
		return refuse(b.statePath(), "the file cannot be removed: %s", cause(err))
	}
	return nil
}

func (b *boot) wipePasswordFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	if !info.Mode().IsRegular() {
		return b.disk.Remove(path) //nolint:wrapcheck // as above
	}
	if err := b.disk.Overwrite(path, bytes.Repeat([]byte(" "), int(info.Size()))); err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	return b.disk.Remove(path) //nolint:wrapcheck // unwiped words it
}

// unwiped says that all is done but that secrets are left.
func unwiped(path string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return refuse(path, "everything was set up, but the passwords in this file could not be wiped, because the partition is read-only: "+
			"run \"mount -o remount,rw %s\" and then \"gatehouse first-boot\"", parentOf(path))
	}
	return refuse(path, "everything was set up, but the passwords in this file could not be wiped (%s): delete it by hand", cause(err))
}
