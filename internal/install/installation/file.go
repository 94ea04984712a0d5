package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"gatehouse/internal/board/durable"
)

// snapshot is what stood at a path: nothing, a file, a folder (without what is in
// it) or a link.
type snapshot struct {
	path   string
	info   fs.FileInfo // nil: nothing
	text   []byte      // of a file
	target string      // of a link
}

func snap(path string) (snapshot, error) {
	s := snapshot{path: path}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("looking: %w", err)
	case info.Mode().IsRegular():
		s.text, err = os.ReadFile(path) //nolint:gosec // one of those that are installed
	case info.Mode()&fs.ModeSymlink != 0:
		s.target, err = os.Readlink(path)
	case !info.IsDir():
		err = fmt.Errorf("%s is neither a file nor a folder: move it away", path)
	}
	if err != nil {
		return s, fmt.Errorf("looking: %w", err)
	}
	s.info = info
	return s, nil
}

func (s snapshot) absent() bool { return s.info == nil }

// restore makes the path what it was. A folder that was not there must be empty.
func (s snapshot) restore() error {
	if s.absent() {
		return remove(s.path)
	}
	mode := s.info.Mode()
	var err error
	switch {
	case mode.IsRegular():
		err = write(s.path, s.text, mode.Perm())
	case mode&fs.ModeSymlink != 0:
		if err = remove(s.path); err == nil {
			err = os.Symlink(s.target, s.path)
		}
		return err
	}
	if owner, ok := s.info.Sys().(*syscall.Stat_t); ok && err == nil {
		err = os.Lchown(s.path, int(owner.Uid), int(owner.Gid))
	}
	if err == nil {
		err = os.Chmod(s.path, mode.Perm()|mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
	}
	return err
}

// remove removes a file, a link or an empty folder; that it is gone already is fine.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write puts a file in its place, whole or not at all, and on the disk.
func write(path string, text []byte, mode fs.FileMode) error { return durable.Write(path, text, mode) }

// flush brings a file, or the names in a folder, to the disk.
func flush(path string) error { return durable.Sync(path) }
