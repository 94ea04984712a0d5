package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// Output is a backup that is being written: until Keep it has the ending ".partial",
// so that what a power cut leaves is not taken for a backup.
type Output struct {
	path string
	file *os.File
}

// Create begins to write a backup to path; with force, it replaces what is there. Errors:
// Conflict where there is a file or another backup is being written, Invalid where it is
// no ordinary file, Unavailable.
func Create(path string, force bool) (*Output, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, fault.New(fault.Invalid, path+" is no ordinary file: name one")
	case err == nil && !force:
		return nil, fault.New(fault.Conflict, path+" exists already: name another file, or replace it with --force")
	}
	o := &Output{path: path}
	o.file, err = os.OpenFile(path+".partial", os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600) //nolint:gosec // the administrator names it
	if err != nil {
		return nil, o.failed(err)
	}
	if err := unix.Flock(int(o.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fault.Wrap(fault.Conflict, "Another backup is being written to "+path+": wait until it is done", err), o.file.Close())
	} // a file system without locks has no two backups at once
	_ = o.file.Chmod(0o600) // one that was left there; some sticks have no modes
	if err := o.file.Truncate(0); err != nil {
		return nil, errors.Join(o.failed(err), o.Discard())
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
