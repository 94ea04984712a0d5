package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// Output is a backup that is being written: until Keep it has the ending ".partial",
// so that what a power cut leaves is not taken for a backup.
type Output struct {
	path string
	file *os.File
	size int64
}

// CheckOutput checks whether a backup can be written to path; with force, what is there
// is replaced. Nothing is changed. Errors: Conflict, NotFound, Invalid.
func CheckOutput(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fault.New(fault.Invalid, path+" is a folder: name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return fault.New(fault.Invalid, path+" is no ordinary file: name one, or - for standard output")
	case err == nil && !force:
		return fault.New(fault.Conflict, path+" exists already: name another file, or replace it with --force")
	}
	folder := filepath.Dir(path)
	info, err = os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, "There is no folder "+folder+": make it, or see that its medium is mounted", err)
	case err != nil:
		return fault.Wrap(fault.Unavailable, "The folder "+folder+" cannot be used ("+reason(err)+")", err)
	case !info.IsDir():
		return fault.New(fault.Invalid, folder+" is no folder")
	}
	return nil
}

// Create begins to write a backup that [CheckOutput] has let pass. Conflict while
// another is being written there.
func Create(path string) (*Output, error) {
	o := &Output{path: path}
	f, err := os.OpenFile(o.partial(), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600) //nolint:gosec // the administrator names it
	if err != nil {
		return nil, o.failed(err)
	}
	o.file = f
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fault.Wrap(fault.Conflict, "Another backup is being written to "+path+": wait until it is done", err), f.Close())
	} // a file system without locks has no two backups at once
	_ = f.Chmod(0o600) // one that was left there; some sticks have no modes
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(o.failed(err), o.Discard())
	}
	return o, nil
}

func (o *Output) partial() string { return o.path + ".partial" }

func (o *Output) failed(err error) error {
	return fault.Wrap(fault.Unavailable, o.path+" cannot be written ("+reason(err)+"): choose another place, or make room there", err)
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	o.size += int64(n)
	if err != nil {
		return n, o.failed(err)
	}
	return n, nil
}

// Keep makes what was written durable under its name, and returns its size in bytes.
func (o *Output) Keep() (size int64, err error) {
	if err := durable.Replace(o.file, o.path); err != nil {
		return 0, o.failed(err)
	}
	return o.size, nil
}

// Discard removes what was written.
func (o *Output) Discard() error { return errors.Join(os.Remove(o.partial()), o.file.Close()) }
