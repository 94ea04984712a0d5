package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/fault"
)

// Configuration is where the configuration is: the path of its main file, beside which
// are conf.d and credentials, and files that it names, of which those below its
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
		all = append(all, Loaded{Path: path, text: text, Entry: entryOf(c.name(path), uint32(info.Mode().Perm()), text)})
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
	return fault.Wrap(fault.Unavailable, "The configuration cannot be read ("+err.Error()+"): fix it, or leave it out with --no-config", err)
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
		if path = filepath.Clean(path); c.isBelow(path) && !slices.Contains(paths, path) {
			paths = append(paths, path)
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
	return !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "~") && !strings.Contains(name, keptSuffix)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isBelow reports whether a path is in the folder of the configuration or below it.
func (c Configuration) isBelow(path string) bool {
	below, err := filepath.Rel(filepath.Dir(c.Main), path)
	return err == nil && filepath.IsLocal(below)
}

// Outside returns the files that the configuration names and that are not below its
// folder: a backup leaves them out.
func (c Configuration) Outside() (paths []string) {
	for _, path := range c.More {
		if !c.isBelow(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// name returns the name of a file of the configuration within an archive. The main file
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
