package backup

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// A restore unpacks into a folder .restore-RANDOM of the data directory. Renaming that
// folder to .restored-STAMP is the moment at which the restore begins: from then on the
// restored gateway is what starts next. Then each file in it replaces the present one,
// which goes to before-restore-STAMP. What is still in the folder has not been placed,
// so this can be interrupted and repeated at any point without further notes. The data
// directory itself cannot be swapped: it may be a mount point, and the folder above it
// is root's.
const (
	stagedPrefix = ".restore-"
	readyPrefix  = ".restored-"
	keptPrefix   = "before-restore-"

	// waitingName is a file in the folder, with the id of the [Placement] that waits.
	waitingName = "configuration"
)

// swap replaces the data of a gateway by restored data. It works in the data directory
// alone, as the owner of it.
type swap struct {
	data   string
	before hook
}

// hook is called before each change of the disk, and may prevent it; nil: not.
type hook func(step string) error

// do makes one change of the disk.
func (h hook) do(step string, change func() error) error {
	if h != nil {
		if err := h(step); err != nil {
			return err
		}
	}
	return change()
}

// Complete finishes a restore that was interrupted after it had begun to replace files,
// and removes what an interrupted backup or restore has left. The caller holds the lock
// of the data directory and has opened nothing there. A configuration that waits for
// [Configuration.Resume] is logged.
func Complete(data string, log *slog.Logger) error {
	waits, err := swap{data: data}.complete()
	if err != nil {
		return fault.Wrap(fault.Unavailable, "A restore of "+data+
			" was interrupted and cannot be completed: check free space with df and the disk with dmesg, then start again", err)
	}
	if waits != "" {
		log.Warn("a restore was interrupted; the data is the restored one, the configuration is not: run gatehouse restore --complete as root, then start again")
	}
	return nil
}

// Waiting returns the id of the [Placement] that a restore in the data directory waits
// for, or "".
func Waiting(data string) (string, error) {
	s := swap{data: data}
	ready, err := s.ready()
	if err != nil || ready == "" {
		return "", err
	}
	return s.waiting(ready)
}

// Forget ends a restore whose configuration is in place.
func Forget(data string) error { return swap{data: data}.forget() }

func (s swap) path(below ...string) string {
	return filepath.Join(append([]string{s.data}, below...)...)
}

// ready returns the name of the folder of a restore that has begun, or "".
func (s swap) ready() (string, error) {
	found, err := named(s.data, readyPrefix)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
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

// waiting returns the id of the configuration that waits, or "".
func (s swap) waiting(ready string) (string, error) {
	id, err := os.ReadFile(s.path(ready, waitingName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(id), err
}

// begin commits to a staged folder.
func (s swap) begin(staged, stamp string) error {
	return s.before.do("begin", func() error { return durable.Rename(s.path(staged), s.path(readyPrefix+stamp)) })
}

// complete finishes a restore that has begun, and returns the id of the configuration
// that waits.
func (s swap) complete() (waits string, err error) {
	ready, err := s.ready()
	if err != nil {
		return "", err
	}
	if ready != "" {
		if err := s.place(ready); err != nil {
			return "", err
		}
		if waits, err = s.waiting(ready); err != nil {
			return "", err
		}
		if waits == "" {
			return "", s.forget()
		}
	}
	s.tidy()
	return waits, nil
}

// place puts every file that is still in the folder in place. The database comes first
// in its order: everything of the former one goes before, because its log beside the new
// database would destroy that.
func (s swap) place(ready string) error {
	entries, err := os.ReadDir(s.path(ready, underData))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		replaced := []string{e.Name()}
		if e.Name() == database {
			if replaced, err = s.family(entries); err != nil {
				return err
			}
		}
		for _, name := range replaced {
			if err := s.keep(name, keptPrefix+strings.TrimPrefix(ready, readyPrefix)); err != nil {
				return err
			}
		}
		err := s.before.do("place "+e.Name(), func() error { return durable.Rename(s.path(ready, underData, e.Name()), s.path(e.Name())) })
		if err != nil {
			return err
		}
	}
	return nil
}

// family lists the files of the present database that go before the restored ones come.
// The copies that upgrades have kept stay where the database alone is restored: it may
// come from one of them.
func (s swap) family(restored []fs.DirEntry) ([]string, error) {
	all, err := named(s.data, database)
	if !slices.ContainsFunc(restored, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), database) }) {
		all = slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, database+".schema") })
	}
	return all, err
}

// keep moves a present file to the folder for what is old.
func (s swap) keep(name, kept string) error {
	if _, err := os.Lstat(s.path(name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	err := s.before.do("make "+keptPrefix, func() error { return os.MkdirAll(s.path(kept), 0o700) })
	if err != nil {
		return err
	}
	return s.before.do("keep "+name, func() error { return durable.Rename(s.path(name), s.path(kept, name)) })
}

// forget removes the folder of a restore that is complete.
func (s swap) forget() error {
	if err := s.supersede(); err != nil {
		return err
	}
	s.tidy()
	return durable.Sync(s.data)
}

// supersede is forget before another restore begins. Of the former one all but the
// configuration is in place, and that is not wanted any more.
func (s swap) supersede() error {
	ready, err := s.ready()
	if err == nil && ready != "" {
		err = s.before.do("forget", func() error { return os.RemoveAll(s.path(ready)) })
	}
	return err
}

// tidy removes what interrupted backups and restores have left. A disk that prevents it
// is no reason to keep doors shut.
func (s swap) tidy() {
	for _, prefix := range []string{stagedPrefix, snapshotPrefix} {
		left, _ := named(s.data, prefix)
		for _, name := range left {
			_ = os.RemoveAll(s.path(name))
		}
	}
}
