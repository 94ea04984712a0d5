package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// spare is what stays free in the data directory when a backup is unpacked, in bytes.
const spare = 8 << 20

// checkRoom sees whether so many bytes fit into a folder.
func checkRoom(folder string, needed int64) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return fault.Wrap(fault.Unavailable, "The disk of "+folder+" does not say how much room it has", err)
	}
	free := int64(disk.Bavail) * int64(disk.Bsize) //nolint:gosec,unconvert // fits; the type is another one on 32 bits
	if needed += spare; free < needed {
		return fault.New(fault.Unavailable, fmt.Sprintf(
			"There is no room in %s: it needs %d MB and %d MB are free; make room there and try again", folder, needed>>20+1, free>>20))
	}
	return nil
}

// syncFolder sees that the names in a folder are on the disk.
func syncFolder(path string) error {
	d, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// owner is whom a file belongs to. The zero owner is whoever runs this.
type owner struct {
	uid, gid int
	known    bool
}

// ownerOf gives the owner of what stands at path, for whoever may give files away.
func ownerOf(path string) (owner, error) {
	info, err := os.Stat(path)
	if err != nil {
		return owner{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return owner{int(stat.Uid), int(stat.Gid), ok && os.Geteuid() == 0}, nil
}

// named gives the owner of these names, where this system knows them.
func named(name, group string) owner {
	o := owner{known: os.Geteuid() == 0}
	if u, err := user.Lookup(name); err == nil {
		o.uid, _ = strconv.Atoi(u.Uid)
	}
	if g, err := user.LookupGroup(group); err == nil {
		o.gid, _ = strconv.Atoi(g.Gid)
	}
	return o
}

// names gives the names of a file's owner and group, where this system knows them.
func names(info fs.FileInfo) (name, group string) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ""
	}
	if u, err := user.LookupId(strconv.Itoa(int(stat.Uid))); err == nil {
		name = u.Username
	}
	if g, err := user.LookupGroupId(strconv.Itoa(int(stat.Gid))); err == nil {
		group = g.Name
	}
	return name, group
}

// give makes the file at path the owner's.
func (o owner) give(path string) error {
	if !o.known {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

// settle makes everything under root the owner's, and sees that it is on the disk.
func (o owner) settle(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return errors.Join(o.give(path), syncFolder(path)) // a file syncs like a folder
	})
}
