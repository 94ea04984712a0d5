package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// A restore unpacks into a folder .restore-RANDOM of the data directory. Renaming that
// folder to .restored-STAMP is the moment at which the restore begins: from then on the
// restored gateway is what starts next. Then everything of the former gateway goes to
// before-restore-STAMP, and each file of the folder to its place. What is still in the
// folder has not been placed, so this can be interrupted and repeated at any point without
// further notes. The data directory itself cannot be swapped: it may be a mount point, and
// the folder above it is root's.
const (
	stagedPrefix = ".restore-"
	readyPrefix  = ".restored-"
	keptPrefix   = "before-restore-"
)

// Complete finishes a restore that was interrupted after it had begun to move files,
// and removes what an interrupted backup or restore has left. The caller holds the lock
// of the data directory, is its owner, and has opened nothing there.
func Complete(data string) error {
	if err := complete(data); err != nil {
		return fault.Wrap(fault.Unavailable, "A restore of "+data+
			" was interrupted and cannot be completed: check free space with df and the disk with dmesg, then start again", err)
	}
	for _, prefix := range []string{stagedPrefix, snapshotPrefix} {
		left, _ := named(data, prefix)
		for _, name := range left {
			_ = os.RemoveAll(filepath.Join(data, name)) // a disk that prevents it is no reason to keep doors shut
		}
	}
	return nil
}

func complete(data string) error {
	begun, err := named(data, readyPrefix)
	if err != nil {
		return err
	}
	for _, ready := range begun {
		left, err := moves(data, ready)
		if err != nil {
			return err
		}
		for _, m := range left {
			if err := m.make(); err != nil {
				return err
			}
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(data, ready)), durable.Sync(data)); err != nil {
			return err
		}
	}
	return nil
}

// named lists the names in a folder that begin with a prefix.
func named(folder, prefix string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// move is one rename.
type move struct{ from, to string }

func (m move) make() error {
	if err := os.MkdirAll(filepath.Dir(m.to), 0o700); err != nil {
		return err
	}
	return durable.Rename(m.from, m.to)
}

// moves lists what is left of a restore that has begun, in its order. The database is the
// first that is placed, and everything of the former gateway goes before: its log beside
// the new database would destroy that.
func moves(data, ready string) (left []move, err error) {
	folder, kept := filepath.Join(data, ready, underData), filepath.Join(data, keptPrefix+strings.TrimPrefix(ready, readyPrefix))
	restored, err := named(folder, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	present, unread := named(data, "")
	for _, name := range present {
		if slices.Contains(restored, name) || slices.Contains(restored, database) && replaced(name) {
			left = append(left, move{filepath.Join(data, name), filepath.Join(kept, name)})
		}
	}
	for _, name := range restored {
		left = append(left, move{filepath.Join(folder, name), filepath.Join(data, name)})
	}
	return left, errors.Join(err, unread)
}

// replaced reports whether a present file goes with the former database: its log, its copies,
// and the key of access tokens, which the next start makes anew.
func replaced(name string) bool { return strings.HasPrefix(name, database) || name == tokenKey }
