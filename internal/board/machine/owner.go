package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Owner is a user of this machine, with the user's own group.
type Owner struct{ UID, GID int }

// maxLinks bounds the symbolic links on the way to a file, as the kernel does.
const maxLinks = 40

// OwnerOf returns the user as whom root must work at path: the owner of the first
// folder, link or file on the way there that is not root's, because that user decides
// what lies below; root where all of it is root's. A path that does not exist counts as
// part of the last folder that does.
func OwnerOf(path string) (Owner, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Owner{}, fmt.Errorf("finding the owner of %s: %w", path, err)
	}
	at, left := "/", strings.Split(path, "/")
	for links := 0; len(left) > 0; {
		next := filepath.Join(at, left[0])
		left = left[1:]
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return Owner{}, fmt.Errorf("finding the owner of %s: %w", path, err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if ok && stat.Uid != 0 {
			return ownGroup(int(stat.Uid), int(stat.Gid)), nil
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return Owner{}, fmt.Errorf("finding the owner of %s: %w", path, errors.Join(err, syscall.ELOOP))
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return Owner{}, nil
}

// ownGroup finds the group of a user. Where the system does not know the user it is that
// of the file, but never root's.
func ownGroup(uid, gid int) Owner {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		if own, err := strconv.Atoi(u.Gid); err == nil {
			gid = own
		}
	}
	if gid == 0 {
		gid = uid
	}
	return Owner{uid, gid}
}

// NamedOwner returns the user with that name; false where there is none.
func NamedOwner(name string) (Owner, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return Owner{}, false
	}
	uid, notUser := strconv.Atoi(u.Uid)
	gid, notGroup := strconv.Atoi(u.Gid)
	return Owner{uid, gid}, notUser == nil && notGroup == nil
}
