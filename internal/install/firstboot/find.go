package firstboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gatehouse/internal/setup/sitefile"
)

// findWiping sets the file whose wiping a power cut has interrupted; "" is none.
func (b *boot) findWiping() {
	folders := slices.Concat(b.Folders, []string{b.folder})
	if b.File != "" {
		folders = []string{parentOf(b.File)}
	}
	b.path = ""
	for _, folder := range folders {
		path, err := filepath.Abs(filepath.Join(folder, wipingName))
		if _, missing := os.Lstat(path); err == nil && missing == nil {
			b.path, b.out.File = path, path
			return
		}
	}
}

// find sets the site file, which is absent in most boots, and names what else is
// there.
func (b *boot) find() error {
	b.path = ""
	if b.File != "" {
		if _, err := os.Stat(b.File); err != nil {
			return refuse(b.File, "the site file cannot be read: %s", cause(err))
		}
		return b.found(b.File)
	}
	var seen []os.FileInfo
	var all []string
	for _, folder := range slices.Concat(b.Folders, []string{b.folder}) {
		for _, name := range sitefile.FileNames() {
			path := filepath.Join(folder, name)
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
				continue
			case errors.Is(err, fs.ErrPermission):
				return refuse(path, "no permission to look there: run this as root")
			case err != nil:
				return refuse(path, "the site file cannot be read: %s", cause(err))
			case slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }):
				continue // one file system, mounted twice
			}
			seen, all = append(seen, info), append(all, path)
		}
	}
	if len(all) == 0 {
		return nil
	}
	b.out.Others = append(b.out.Others, all[1:]...)
	for _, other := range all[1:] {
		b.warn("There is another site file, %s. It was not used, and will be when the gateway is switched on again: remove it if that is not meant.", other)
	}
	return b.found(all[0])
}

func (b *boot) found(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return refuse(path, "the site file cannot be read: %s", cause(err))
	}
	b.path, b.out.File = absolute, absolute
	return nil
}

// mayChange finds out before anything happens whether this process may do all of it.
// A boot partition that is read-only stops nothing: the passwords in the file cannot
// be wiped then, and the result says so.
func (b *boot) mayChange(context.Context) error {
	for _, folder := range []string{b.folder, parentOf(b.path)} {
		err := unix.Access(folder, unix.W_OK|unix.X_OK)
		switch {
		case err == nil || errors.Is(err, unix.EROFS) && folder != b.folder:
		case errors.Is(err, unix.EROFS):
			return refuse(folder, "the folder of the configuration is read-only: make it writable first")
		case errors.Is(err, unix.ENOENT):
			return refuse(folder, "there is no such folder: install Gatehouse first, or name its configuration with --config")
		default:
			return refuse(folder, "no permission to write there: run this as root")
		}
	}
	return nil
}

// warn adds a sentence to the result.
func (b *boot) warn(format string, args ...any) {
	b.out.Warnings = append(b.out.Warnings, fmt.Sprintf(format, args...))
}

// resultPath and the others are where this package writes.
func (b *boot) resultPath() string   { return filepath.Join(parentOf(b.path), resultName) }
func (b *boot) donePath() string     { return filepath.Join(parentOf(b.path), doneName) }
func (b *boot) wipingPath() string   { return filepath.Join(parentOf(b.path), wipingName) }
func (b *boot) statePath() string    { return filepath.Join(b.folder, stateName) }
func (b *boot) partsPath() string    { return filepath.Join(b.folder, "conf.d") }
func (b *boot) settingsPath() string { return filepath.Join(b.partsPath(), settingsName) }
func (b *boot) beforePath() string   { return filepath.Join(b.partsPath(), beforeName) }
