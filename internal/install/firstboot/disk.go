package firstboot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
)

// disk is how this package changes files; each method is durable when it returns.
// Tests use one that fails, or from which the power is cut.
type disk interface {
	// MakeFolder makes a folder, and those above it.
	MakeFolder(path string) error
	// Write replaces the file at path: after a power cut it has the old or the new
	// content. A group of -1 is the process's own.
	Write(path string, data []byte, mode fs.FileMode, group int) error
	// Overwrite writes over the bytes of a file in place. A power cut leaves some of
	// both.
	Overwrite(path string, data []byte) error
	Rename(from, to string) error
	// Remove removes a file; one that is not there is no error.
	Remove(path string) error
}

// ownGroup is the group of files that are for root alone.
const ownGroup = durable.OwnGroup

// realDisk is the disk of the machine.
type realDisk struct{}

func (realDisk) MakeFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	err := os.MkdirAll(path, 0o755) //nolint:gosec // a folder of the configuration, for everyone to read
	if err == nil {
		err = os.Chmod(path, 0o755) //nolint:gosec // whatever the umask is
	}
	if err != nil {
		return err //nolint:wrapcheck // the callers word it
	}
	return durable.Sync(filepath.Dir(path))
}

func (realDisk) Write(path string, data []byte, mode fs.FileMode, group int) error {
	return durable.WriteGroup(path, data, mode, group) //nolint:wrapcheck // the callers word it
}

func (realDisk) Overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // the site file, or one that it names
	if err != nil {
		return err //nolint:wrapcheck // the callers word it
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close(), durable.Sync(path))
}

func (realDisk) Rename(from, to string) error {
	return durable.Rename(from, to) //nolint:wrapcheck // the callers word it
}

func (realDisk) Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // the callers word it
	}
	return durable.Sync(filepath.Dir(path))
}

// onPublicDisk reports whether the file at path lies on a file system that keeps no
// modes, such as FAT, and that every user can read, as Raspberry Pi OS mounts its boot
// partition: what is written beside the file can be read by every user.
func onPublicDisk(path string) bool {
	var disk unix.Statfs_t
	info, err := os.Stat(path)
	if err != nil || unix.Statfs(path, &disk) != nil || info.Mode().Perm()&0o077 == 0 {
		return false
	}
	switch int64(disk.Type) { //nolint:unconvert // another type on 32 bits
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, 0x5346544e, 0x7366746e: // and NTFS, by both of its drivers
		return true
	}
	return false
}
