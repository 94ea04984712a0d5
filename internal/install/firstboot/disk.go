package firstboot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
)

// ownGroup is the group of files that are for root alone.
const ownGroup = durable.OwnGroup

// touch is one change of the disk; each is durable before the next begins.
type touch struct {
	Path  string
	Mode  fs.FileMode // of a file that is replaced
	Group int         // likewise
	Data  []byte      // that the file will have; nil where it is renamed or removed
}

// replace replaces a file: after a power cut it has the old or the new content. A group of
// -1 is the process's own.
func (b *boot) replace(path string, data []byte, mode fs.FileMode, group int) error {
	if err := b.touch(touch{Path: path, Mode: mode, Group: group, Data: data}); err != nil {
		return err
	}
	return durable.WriteGroup(path, data, mode, group) //nolint:wrapcheck // the callers word it
}

// write is replace with an error for people.
func (b *boot) write(path string, data []byte, mode fs.FileMode, group int) error {
	if err := b.replace(path, data, mode, group); err != nil {
		return refuse(path, "the file cannot be written: %s", cause(err))
	}
	return nil
}

// blank overwrites the bytes of a file where they are. A power cut leaves some of both.
func (b *boot) blank(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	data := bytes.Repeat([]byte(" "), int(info.Size()))
	if err := b.touch(touch{Path: path, Data: data}); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // the site file, or one that it names
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close(), durable.Sync(path))
}

func (b *boot) rename(from, to string) error {
	if err := b.touch(touch{Path: from}); err != nil {
		return err
	}
	return durable.RenameFile(from, to) //nolint:wrapcheck // the callers word it
}

// remove removes a file; one that does not exist is no error.
func (b *boot) remove(path string) error {
	err := b.touch(touch{Path: path})
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.Sync(filepath.Dir(path))
	}
	if err != nil {
		return refuse(path, "the file cannot be removed: %s", cause(err))
	}
	return nil
}

// onPublicDisk reports whether a folder lies on a file system that keeps no modes, such as
// FAT, and that every user can read, as Raspberry Pi OS mounts its boot partition: what is
// written there can be read by every user.
func onPublicDisk(folder string) bool {
	var disk unix.Statfs_t
	info, err := os.Stat(folder)
	if err != nil || unix.Statfs(folder, &disk) != nil || info.Mode().Perm()&0o077 == 0 {
		return false
	}
	switch int64(disk.Type) { //nolint:unconvert // another type on 32 bits
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, 0x5346544e, 0x7366746e: // and NTFS, by both of its drivers
		return true
	}
	return false
}
