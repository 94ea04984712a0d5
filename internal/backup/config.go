package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/internal/fault"
)

// Configuration is where the configuration stands: the path of its main file, beside
// which stand conf.d and credentials, and files that it names, of which those below its
// folder belong to it.
type Configuration struct {
	Main string
	More []string
}

// Loaded is one file of the configuration.
type Loaded struct {
	Entry
	Path string
	text []byte
}

// Load reads the files of the configuration that there are: the main file, what else is
// read with it, and the credentials. A file that this user may not read is Forbidden.
func (c Configuration) Load() (all []Loaded, err error) {
	paths, err := c.paths()
	if err != nil {
		return nil, unreadable(err)
	}
	for _, path := range paths {
		text, info, err := readSmall(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, unreadable(err)
		}
		one := Loaded{Path: path, text: text, Entry: entryOf(c.name(path), uint32(info.Mode().Perm()), text)}
		one.Owner, one.Group = names(info)
		all = append(all, one)
	}
	return all, nil
}

func unreadable(err error) error {
	path := "of the configuration"
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path = e.Path
	}
	if errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(fault.Forbidden, "The file "+path+" cannot be read by this user: run this as root, or leave the configuration out with --no-config", err)
	}
	return fault.Wrap(fault.Unavailable, "The configuration cannot be read ("+err.Error()+"): mend it, or leave it out with --no-config", err)
}

// paths lists what may be there, each once.
func (c Configuration) paths() ([]string, error) {
	folder := filepath.Dir(c.Main)
	paths := []string{c.Main}
	for _, sub := range []string{"conf.d", "credentials"} {
		entries, err := os.ReadDir(filepath.Join(folder, sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(folder, sub, e.Name())
			if isConfig(sub, e.Name()) && isFile(path) {
				paths = append(paths, path)
			}
		}
	}
	for _, path := range c.More {
		if below, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(below) && !contains(paths, path) {
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths, nil
}

// isConfig reports whether a file in conf.d or credentials counts. What an editor or a
// restore has set aside does not.
func isConfig(folder, name string) bool {
	if folder == "conf.d" {
		return strings.HasSuffix(name, ".toml") && !strings.HasPrefix(name, ".")
	}
	return !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "~") && !strings.Contains(name, keptSuffix) && !strings.HasSuffix(name, restoredSuffix)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func contains(paths []string, path string) bool {
	for _, p := range paths {
		if p == filepath.Clean(path) {
			return true
		}
	}
	return false
}

// Outside gives the files that the configuration names and that are not below its
// folder: a backup leaves them out.
func (c Configuration) Outside() (paths []string) {
	for _, path := range c.More {
		if below, err := filepath.Rel(filepath.Dir(c.Main), path); err != nil || !filepath.IsLocal(below) {
			paths = append(paths, path)
		}
	}
	return paths
}

// name gives the name of a file of the configuration within an archive. The main file
// has always the same, so that it may be restored to another.
func (c Configuration) name(path string) string {
	if path == c.Main {
		return mainConfig
	}
	below, err := filepath.Rel(filepath.Dir(c.Main), path)
	if err != nil {
		return ""
	}
	return underConfig + filepath.ToSlash(below)
}

// target is where a file of an archive goes.
func (c Configuration) target(name string) string {
	if name == mainConfig {
		return c.Main
	}
	return filepath.Join(filepath.Dir(c.Main), filepath.FromSlash(strings.TrimPrefix(name, underConfig)))
}

// A restore writes a file of the configuration beside its place first, and keeps what
// stood there.
const (
	restoredSuffix = ".restored"
	keptSuffix     = ".before-restore-"
)

// change is what a restore does to one file of the configuration.
type change struct {
	Target string `json:"target"`
	Kept   string `json:"kept,omitempty"` // where the present file goes; "": there is none
	Gone   bool   `json:"gone,omitempty"` // whether nothing comes in its place
}

// prepare writes the restored files beside their places, and says what to do with them.
// Those that are there already, as they are, need nothing. What conf.d has and the
// backup has not goes: it would be read with it.
func (c Configuration) prepare(staged string, m Manifest, stamp string) (changes []change, err error) {
	wanted := make(map[string]bool)
	for _, e := range m.Files {
		if !strings.HasPrefix(e.Name, underConfig) {
			continue
		}
		target := c.target(e.Name)
		wanted[target] = true
		present, unread := os.ReadFile(target) //nolint:gosec // a file of the configuration
		text, err := os.ReadFile(filepath.Join(staged, filepath.FromSlash(e.Name)))
		if err != nil {
			return changes, fmt.Errorf("reading %s: %w", e.Name, err)
		}
		if unread == nil && bytes.Equal(present, text) {
			continue
		}
		one := change{Target: target}
		if !errors.Is(unread, fs.ErrNotExist) {
			one.Kept = target + keptSuffix + stamp
		}
		changes = append(changes, one)
		if err := lay(e, target+restoredSuffix, text); err != nil {
			return changes, fault.Wrap(fault.Unavailable, "The configuration file "+target+
				" cannot be written: run this as root, name another configuration with --config, or leave it as it is with --no-config", err)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	present, err := c.paths()
	if err != nil {
		return changes, unreadable(err)
	}
	for _, path := range present {
		if filepath.Dir(path) == filepath.Join(filepath.Dir(c.Main), "conf.d") && !wanted[path] {
			changes = append(changes, change{Target: path, Kept: path + keptSuffix + stamp, Gone: true})
		}
	}
	return changes, nil
}

// lay writes one restored file, with the mode and, where this may give files away, the
// owner that it had.
func lay(e Entry, path string, text []byte) error {
	mode := os.FileMode(e.Mode).Perm()
	folder := os.FileMode(0o755)
	if mode&0o077 == 0 {
		folder = 0o700 // what is private in a folder that did not exist
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), folder), os.Chmod(filepath.Dir(path), folder)); err != nil { // whatever the umask is
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // beside a file of the configuration
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, named(e.Owner, e.Group).give(path), f.Chmod(mode), f.Sync(), f.Close())
}
