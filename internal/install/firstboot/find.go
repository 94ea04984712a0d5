package firstboot

import (
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

// find sets the site file, which is absent in most boots. Another one is found when the
// board starts again.
func (b *boot) find() error {
	b.path = ""
	if b.File != "" {
		if _, err := os.Stat(b.File); err != nil {
			return refuse(b.File, "the site file cannot be read: %s", cause(err))
		}
		return b.found(b.File)
	}
	for _, folder := range slices.Concat(b.Folders, []string{b.folder}) {
		for _, name := range sitefile.FileNames() {
			path := filepath.Join(folder, name)
			_, err := os.Stat(path)
			switch {
			case err == nil:
				return b.found(path)
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
				return refuse(path, "the site file cannot be read: %s", cause(err))
			}
		}
	}
	return nil
}

func (b *boot) found(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return refuse(path, "the site file cannot be read: %s", cause(err))
	}
	b.path, b.out.File = absolute, absolute
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
