package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gatehouse/internal/fault"
)

// The names in the data directory.
const (
	markerName   = "restore.json"
	stagedPrefix = ".restore-"
	keptPrefix   = "before-restore-"
)

// The phases of a swap. Each may be done again from its beginning.
const (
	movingOut = "out" // what stands in the data directory is the old gateway's
	movingIn  = "in"  // what stands there is the new one's, as far as it is there
)

// marker says that a swap has begun, and how far it is. As long as it is there, nobody
// may open the database.
type marker struct {
	Phase  string   `json:"phase"`
	Staged string   `json:"staged"` // the folder in the data directory with what is new
	Kept   string   `json:"kept"`   // the folder in the data directory for what is old; "": there is nothing
	Whole  bool     `json:"whole"`  // whether everything is replaced, or the database alone
	Config []change `json:"config,omitempty"`
}

// swap replaces the data of a gateway by restored data.
type swap struct {
	data   string
	before func(step string) error // called before each change of the disk; nil: not
}

// Complete finishes a restore that was interrupted after it had begun to replace files,
// and removes what an interrupted backup or restore has left. Whoever has taken the lock
// of the data directory calls it before anything there is opened. What it cannot do for
// the configuration, because only root may, it says in the log.
func Complete(data string, log *slog.Logger) error {
	s := swap{data: data}
	pending, err := s.complete()
	if err != nil {
		return fault.Wrap(fault.Unavailable, "A restore of "+data+
			" was interrupted and cannot be completed: check free space with df and the disk with dmesg, then start again", err)
	}
	if len(pending) > 0 {
		log.Warn("a restore was interrupted; the data is the restored one, and these files of the configuration wait beside their places with the ending "+
			restoredSuffix+": as root, move them there", "files", strings.Join(pending, " "))
	}
	return nil
}

// complete gives the files of the configuration that it could not put in place.
func (s swap) complete() (pending []string, err error) {
	m, err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		s.tidy()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.Phase == movingOut {
		if err := s.moveOut(m); err != nil {
			return nil, err
		}
		m.Phase = movingIn
		if err := s.write(m); err != nil {
			return nil, err
		}
	}
	if err := s.moveIn(m); err != nil {
		return nil, err
	}
	if pending, err = s.placeConfig(m.Config); err != nil {
		return nil, err
	}
	if err := s.do("forget", func() error { return os.Remove(s.path(markerName)) }); err != nil {
		return nil, err
	}
	if err := syncFolder(s.data); err != nil {
		return nil, err
	}
	s.tidy()
	return pending, nil
}

func (s swap) path(name string) string { return filepath.Join(s.data, name) }

// do makes one change of the disk.
func (s swap) do(step string, change func() error) error {
	if s.before != nil {
		if err := s.before(step); err != nil {
			return err
		}
	}
	return change()
}

// read gives the marker; [fs.ErrNotExist] where there is none.
func (s swap) read() (m marker, err error) {
	text, err := os.ReadFile(s.path(markerName))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("reading %s: %w", s.path(markerName), err)
	}
	if !strings.HasPrefix(m.Staged, stagedPrefix) || !filepath.IsLocal(m.Staged) ||
		m.Kept != "" && (!strings.HasPrefix(m.Kept, keptPrefix) || !filepath.IsLocal(m.Kept)) {
		return m, fmt.Errorf("reading %s: it names no folder of a restore", s.path(markerName))
	}
	return m, nil
}

// write makes the marker durable, or leaves the one that stands there.
func (s swap) write(m marker) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("noting the restore: %w", err)
	}
	partial := s.path(stagedPrefix + "marker")
	err = s.do("write marker "+m.Phase, func() error { return writeNew(partial, text) })
	if err == nil {
		err = s.hand(partial)
	}
	if err == nil {
		err = s.do("set marker "+m.Phase, func() error { return os.Rename(partial, s.path(markerName)) })
	}
	if err == nil {
		err = syncFolder(s.data)
	}
	return err
}

// writeNew writes a file that was not there: the data directory is another user's, who
// may have put a link there.
func writeNew(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in the data directory
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// hand makes what is new in the data directory its owner's, and durable.
func (s swap) hand(path string) error {
	o, err := ownerOf(s.data)
	if err != nil {
		return err
	}
	return o.settle(path)
}

// old lists what makes up the gateway that is replaced.
func (s swap) old(whole bool) ([]string, error) {
	if !whole {
		return present(s.data, database, database+"-wal", database+"-shm", database+"-journal")
	}
	all, err := filepath.Glob(filepath.Join(escape(s.data), database+"*"))
	if err != nil {
		return nil, err
	}
	names := []string{tokenKey, certificates}
	for _, path := range all {
		names = append(names, filepath.Base(path))
	}
	return present(s.data, names...)
}

// escape makes a path one that [filepath.Glob] takes literally.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// present gives those of the names that a folder has.
func present(folder string, names ...string) (found []string, err error) {
	for _, name := range names {
		_, err := os.Lstat(filepath.Join(folder, name))
		if err == nil {
			found = append(found, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return found, nil
}

// moveOut keeps what is old. Whatever of it still stands in the data directory has not
// been moved yet.
func (s swap) moveOut(m marker) error {
	names, err := s.old(m.Whole)
	if err != nil || m.Kept == "" {
		return err
	}
	kept := s.path(m.Kept)
	if err := s.do("make "+keptPrefix, func() error { return os.MkdirAll(kept, 0o700) }); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.do("keep "+name, func() error { return os.Rename(s.path(name), filepath.Join(kept, name)) }); err != nil {
			return err
		}
	}
	o, err := ownerOf(s.data)
	if err != nil {
		return err
	}
	return errors.Join(o.give(kept), syncFolder(kept), syncFolder(s.data))
}

// moveIn puts the new in place. Whatever of it is not in its folder any more has been
// moved.
func (s swap) moveIn(m marker) error {
	staged := filepath.Join(s.path(m.Staged), underData)
	entries, err := os.ReadDir(staged)
	if errors.Is(err, fs.ErrNotExist) && isFile(s.path(database)) {
		return nil // someone has removed the empty folder
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := s.do("place "+e.Name(), func() error { return os.Rename(filepath.Join(staged, e.Name()), s.path(e.Name())) })
		if err != nil {
			return err
		}
	}
	return errors.Join(syncFolder(staged), syncFolder(s.data))
}

// placeConfig puts the restored configuration in place, and gives the files for which
// this user may not do it.
func (s swap) placeConfig(changes []change) (pending []string, err error) {
	for _, c := range changes {
		err := s.placeFile(c)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			pending = append(pending, c.Target)
		} else if err != nil {
			return pending, fmt.Errorf("placing %s: %w", c.Target, err)
		}
	}
	return pending, nil
}

// placeFile puts one file in place, unless that was done before.
func (s swap) placeFile(c change) error {
	waiting, err := present(filepath.Dir(c.Target), filepath.Base(c.Target)+restoredSuffix)
	if err != nil || len(waiting) == 0 && !c.Gone {
		return err
	}
	if c.Kept != "" {
		if err := s.keepFile(c); err != nil {
			return err
		}
	}
	if !c.Gone {
		if err := s.do("place configuration", func() error { return os.Rename(c.Target+restoredSuffix, c.Target) }); err != nil {
			return err
		}
	}
	return syncFolder(filepath.Dir(c.Target))
}

// keepFile gives the present file its other name. Where a file comes in its place, it has
// both names until then, so that there is always one.
func (s swap) keepFile(c change) error {
	err := s.do("keep configuration", func() error {
		if c.Gone {
			return os.Rename(c.Target, c.Kept)
		}
		return os.Link(c.Target, c.Kept)
	})
	if errors.Is(err, fs.ErrExist) || c.Gone && errors.Is(err, fs.ErrNotExist) {
		return nil // done before
	}
	return err
}

// tidy removes what interrupted backups and restores have left. A disk that does not let
// it is no reason to keep doors shut.
func (s swap) tidy() {
	for _, pattern := range []string{stagedPrefix + "*", snapshotPrefix + "*"} {
		left, err := filepath.Glob(filepath.Join(escape(s.data), pattern))
		if err != nil {
			continue
		}
		for _, path := range left {
			_ = os.RemoveAll(path)
		}
	}
}
