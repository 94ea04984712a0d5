package sitefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"gatehouse/internal/setup/tomlfile"
)

// MaxSize is the largest site file, in bytes: room for thousands of stations.
const MaxSize = 1 << 20

// maxPasswordFile bounds a password file, in bytes.
const maxPasswordFile = 4 << 10

// ReadFile reads and checks the site file at path. The paths of password files are
// relative to its folder. Its error is a [*tomlfile.Error] with every problem, or that of
// reading path.
func ReadFile(path string) (Site, error) {
	file, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return Site{}, fmt.Errorf("reading the site file: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return Site{}, fmt.Errorf("reading the site file: %w", err)
	}
	return Parse(path, data)
}

// Parse is [ReadFile] of a text that was read from path already.
func Parse(path string, text []byte) (Site, error) {
	if len(text) > MaxSize {
		return Site{}, tomlfile.Report([]tomlfile.Problem{{File: path, Text: fmt.Sprintf("the file is too large: at most %d MiB", MaxSize>>20)}})
	}
	d, err := tomlfile.Decode(path, text)
	if err != nil {
		return Site{}, err //nolint:wrapcheck // it names the file
	}
	s, problems := Read(d, nil)
	if err := tomlfile.Report(problems); err != nil {
		return Site{}, err //nolint:wrapcheck // as above
	}
	return s, nil
}

// readPassword reads the one line of a small file.
func readPassword(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", errors.New(path + " is not a regular file")
	}
	data, err := tomlfile.Read(path, maxPasswordFile)
	if err != nil {
		return "", cause(err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case !utf8.ValidString(text):
		return "", errors.New(path + " is not UTF-8 text")
	case text == "" || strings.ContainsAny(text, "\r\n"):
		return "", errors.New(path + " must hold the password in its one line")
	}
	return text, nil
}

// cause words an error of the file system without the name of the system call.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

// BootFolders are where a site file is looked for first: the boot partition as Raspberry
// Pi OS, an image with UEFI and others mount it.
func BootFolders() []string { return []string{"/boot/firmware", "/boot/efi", "/boot"} }

// FileNames are what a site file may be called. Windows hides the ending of a name and its
// editor adds one, so the second is as common as the first.
func FileNames() []string { return []string{"gatehouse-site.toml", "gatehouse-site.toml.txt"} }

// inFolder returns the path of a file that another one names.
func inFolder(file, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}
