package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// Configuration is where the configuration is: the path of its main file, beside which
// are conf.d and credentials, and files that it names, of which those below its
// folder belong to it.
type Configuration struct {
	Main string
	More []string
}

// Loaded is one file of a configuration, in memory.
type Loaded struct {
	Entry
	Path string // where it was read; "" for one in a backup
	Text []byte
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
		sum := sha256.Sum256(text)
		e := Entry{Name: c.name(path), Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Mode: uint32(info.Mode().Perm())}
		all = append(all, Loaded{Entry: e, Path: path, Text: text})
	}
	return all, nil
}

// maxSmall bounds a file that is taken into memory, in bytes.
const maxSmall = 1 << 20

// readSmall reads a file that is known to be small.
func readSmall(path string) ([]byte, fs.FileInfo, error) {
	f, info, err := openRegular(path, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSmall)
	}
	return text, info, err
}

// openRegular opens an ordinary file, and refuses anything else without waiting for it,
// such as a pipe without a writer. flag is for open(2), beside O_RDONLY.
func openRegular(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flag, 0) //nolint:gosec // of the data directory or the configuration, or the administrator names it
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no ordinary file")}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func unreadable(err error) error {
	kind := fault.Unavailable
	if errors.Is(err, fs.ErrPermission) {
		kind = fault.Forbidden
	}
	return fault.Wrap(kind, "The configuration cannot be read ("+err.Error()+"): run this as root, fix it, or leave it out with --no-config", err)
}

// paths lists what may be there, each once.
func (c Configuration) paths() ([]string, error) {
	paths := []string{c.Main}
	for _, sub := range []string{"conf.d", "credentials"} {
		folder := filepath.Join(filepath.Dir(c.Main), sub)
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && isConfig(sub, e.Name()) {
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
	return !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "~") && !strings.Contains(name, KeptSuffix)
}

// isBelow reports whether a path is in the folder of the configuration or below it.
func (c Configuration) isBelow(path string) bool {
	below, err := filepath.Rel(filepath.Dir(c.Main), path)
	return err == nil && filepath.IsLocal(below)
}

// Outside returns the files that the configuration names and that are not below its
// folder: a backup leaves them out.
func (c Configuration) Outside() (paths []string) {
	return slices.DeleteFunc(slices.Clone(c.More), c.isBelow)
}

// name returns the name of a file of the configuration within an archive. That of the main
// file is always the same, so that it may be restored to another.
func (c Configuration) name(path string) string {
	if path == c.Main {
		return mainConfig
	}
	below, _ := filepath.Rel(filepath.Dir(c.Main), path) // all of them are below
	return underConfig + filepath.ToSlash(below)
}

// target is where a file of an archive goes.
func (c Configuration) target(name string) string {
	if name == mainConfig {
		return c.Main
	}
	return filepath.Join(filepath.Dir(c.Main), filepath.FromSlash(strings.TrimPrefix(name, underConfig)))
}
