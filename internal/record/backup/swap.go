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

	"gatehouse/internal/board/durable"
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
	movingOut = "out"  // what is in the data directory is the old gateway's
	movingIn  = "in"   // what is there is the new one's, possibly incomplete
	moved     = "done" // all of it is; the configuration may still wait
)

// marker says that a swap has begun, and how far it is. Before the phase moved, no
// process may open the database. It names nothing outside the data directory.
type marker struct {
	Phase         string `json:"phase"`
	Staged        string `json:"staged"`                  // the folder in the data directory with what is new
	Kept          string `json:"kept"`                    // the folder in the data directory for what is old; "": there is nothing
	Whole         bool   `json:"whole"`                   // whether everything is replaced, or the database alone
	Configuration string `json:"configuration,omitempty"` // the id of the [Placement] that goes with it
}

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
	m, err := swap{data: data}.read()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return m.Configuration, err
}

// Forget ends a restore whose configuration is in place.
func Forget(data string) error { return swap{data: data}.forget() }

// complete returns the id of the configuration that waits.
func (s swap) complete() (waits string, err error) {
	m, err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		s.tidy()
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if m.Phase == movingOut {
		if err := s.moveOut(m); err != nil {
			return "", err
		}
		m.Phase = movingIn
		if err := s.write(m); err != nil {
			return "", err
		}
	}
	if m.Phase == movingIn {
		if err := s.moveIn(m); err != nil {
			return "", err
		}
		if m.Configuration == "" {
			return "", s.forget()
		}
		m.Phase = moved
		if err := s.write(m); err != nil {
			return "", err
		}
	}
	s.tidy()
	return m.Configuration, nil
}

// forget removes the marker.
func (s swap) forget() error {
	err := s.before.do("forget", func() error { return os.Remove(s.path(markerName)) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.tidy()
	return durable.Sync(s.data)
}

func (s swap) path(name string) string { return filepath.Join(s.data, name) }

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
	return s.before.do("write marker "+m.Phase, func() error { return durable.Write(s.path(markerName), text, 0o600) })
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
	if err := s.before.do("make "+keptPrefix, func() error { return os.MkdirAll(kept, 0o700) }); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.before.do("keep "+name, func() error { return durable.Rename(s.path(name), filepath.Join(kept, name)) }); err != nil {
			return err
		}
	}
	return nil
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
		err := s.before.do("place "+e.Name(), func() error { return durable.Rename(filepath.Join(staged, e.Name()), s.path(e.Name())) })
		if err != nil {
			return err
		}
	}
	return nil
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
