// Package durable replaces files so that a power cut leaves the old file or the new one,
// whole, under its name. It is the one place where files are renamed into place: every
// package that keeps something on the disk calls it, but for the database, which has
// SQLite for that.
//
// A renamed file is synchronised after the renaming too, before its folder. On FAT the entry
// in the folder says where the file is and how long, and the kernel writes that part only
// with the file: with the folder alone, a power cut leaves an entry without its content.
//
// It follows no symbolic link that someone has put in the place of its temporary file.
// It does follow those in the path of the folder: root calls it only for folders that
// belong to root.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OwnGroup stands for the group of the process.
const OwnGroup = -1

// suffix ends the name of a file that is being written. The name is always the same, so
// that power cuts leave at most one behind, which the next write replaces.
const suffix = ".new"

// Write replaces the file at path, whose folder must exist, and returns when the new
// content is on the disk under that name. After an error the old file is there unless
// only the new name could not be synchronised. Not to be called for one path concurrently.
// Errors are those of the system ([fs.PathError]).
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteGroup(path, content, mode, OwnGroup)
}

// WriteGroup is Write for a file of another group.
func WriteGroup(path string, content []byte, mode fs.FileMode, group int) error {
	temporary := path + suffix
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the caller answers for the path
	if err != nil {
		return err
	}
	if group != OwnGroup {
		err = f.Chown(-1, group)
	}
	if err == nil && mode != 0o600 { // FAT has no modes, and refuses most
		err = f.Chmod(mode)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(temporary))
	}
	return Replace(f, path)
}

// Replace synchronises a written file, renames it to path, in the same folder, and closes
// it. If that fails, the written file is removed.
func Replace(f *os.File, path string) error {
	err := f.Sync()
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return settle(f, path)
}

// settle synchronises a file that was renamed to path, closes it and synchronises its folder.
func settle(f *os.File, path string) error {
	return errors.Join(f.Sync(), f.Close(), Sync(filepath.Dir(path)))
}

// RenameFile renames a file within its folder, also on FAT, and synchronises the file and
// the folder. It opens the file, so it is for folders whose names nobody else can change.
func RenameFile(from, to string) error {
	f, err := os.Open(from) //nolint:gosec // the caller answers for the path
	if err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, f.Close())
	}
	return settle(f, to)
}

// Rename renames a file or a folder whose content is on the disk, and synchronises the
// folders of both names. It opens nothing but these. On FAT it is not enough (RenameFile).
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := Sync(filepath.Dir(to)); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return Sync(filepath.Dir(from))
}

// Sync brings a file, or the names in a folder, to the disk. Of a file system that
// cannot synchronise a folder it expects nothing.
func Sync(path string) error {
	f, err := os.Open(path) //nolint:gosec // the caller answers for the path
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("synchronising %s: %w", path, err)
	}
	return nil
}
