package certificate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files of the gateway's own CA and server certificate.
const (
	fileCAKey     = "ca.key"
	fileCA        = "ca.crt"
	fileServerKey = "server.key"
	fileServer    = "server.crt"
)

// maxFile is the most that is read of a file, so that a path such as /dev/zero does
// no harm. A chain with its key has some 10 kB.
const maxFile = 1 << 20

// folder is where the gateway's own keys and certificates stand. One process at a
// time has it.
type folder struct {
	path string
	step func(name string) error // called before each step of writing; tests break it there
}

func (f folder) file(name string) string { return filepath.Join(f.path, name) }

func (f folder) read(name string) ([]byte, error) { return readFile(f.file(name)) }

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// write puts a file into the folder, which it makes where there is none, so that a
// power cut leaves either the old or the new one whole.
func (f folder) write(name string, text []byte, mode os.FileMode) error {
	if err := f.make(); err != nil {
		return fmt.Errorf("making %s: %w", f.path, err)
	}
	// The name is always the same, so that cuts leave no heap of remains.
	temporary := f.file(name) + ".new"
	if err := f.fill(temporary, text, mode); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", f.file(name), err), ignoreAbsent(os.Remove(temporary)))
	}
	err := f.step("rename")
	if err == nil {
		err = os.Rename(temporary, f.file(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", f.file(name), err), ignoreAbsent(os.Remove(temporary)))
	}
	return f.sync(f.path)
}

// make makes the folder, for its owner alone.
func (f folder) make() error {
	if _, err := os.Stat(f.path); err == nil {
		return nil
	}
	if err := f.step("folder"); err != nil {
		return err
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	return f.sync(filepath.Dir(f.path))
}

// fill makes a file with the text in it, durably.
func (f folder) fill(path string, text []byte, mode os.FileMode) error {
	if err := f.step("create"); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode) //nolint:gosec // the path is the administrator's
	if err != nil {
		return err
	}
	err = file.Chmod(mode) // one that a power cut left, or a narrow umask
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"write", func() error { _, err := file.Write(text); return err }},
		{"sync", file.Sync},
	} {
		if err == nil {
			err = f.step(step.name)
		}
		if err == nil {
			err = step.do()
		}
	}
	return errors.Join(err, file.Close())
}

// sync makes the entries of a directory durable.
func (f folder) sync(path string) error {
	if err := f.step("settle"); err != nil {
		return err
	}
	d, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreAbsent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
