package backup

import (
	"errors"
	"os"
	"path/filepath"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// Output is a backup that is being written: until Keep its name ends in ".partial", so
// that what a power cut leaves is not taken for a backup.
type Output struct {
	path string
	file *os.File
}

// Create begins to write a backup to path; with force, it replaces what is there. Errors:
// Conflict where there is a file, Invalid where it is no ordinary one, Unavailable.
func Create(path string, force bool) (*Output, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, fault.New(fault.Invalid, path+" is no ordinary file: name one")
	case err == nil && !force:
		return nil, fault.New(fault.Conflict, path+" exists already: name another file, or replace it with --force")
	}
	o := &Output{path: path}
	o.file, err = os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial") // with mode 0600
	if err != nil {
		return nil, o.failed(err)
	}
	return o, nil
}

func (o *Output) failed(err error) error {
	return fault.Wrap(fault.Unavailable, o.path+" cannot be written ("+reason(err)+"): see that its medium is mounted and has room, or name another place", err)
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if err != nil {
		err = o.failed(err)
	}
	return n, err
}

// Keep makes what was written durable under its name, and returns its size in bytes.
func (o *Output) Keep() (size int64, err error) {
	info, err := o.file.Stat()
	if err == nil {
		err = durable.Replace(o.file, o.path)
	}
	if err != nil {
		return 0, o.failed(err)
	}
	return info.Size(), nil
}

// Discard removes what was written.
func (o *Output) Discard() error { return errors.Join(os.Remove(o.file.Name()), o.file.Close()) }
