package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
)

// How the two kinds of files that can be restored begin.
const (
	ageMagic    = "age-encryption.org/v1\n"
	sqliteMagic = "SQLite format 3\x00"
)

// Medium is a file to restore from.
type Medium struct {
	Path      string
	Encrypted bool // a backup, not a plain copy of a database
	file      *os.File
}

// Open opens a file to restore from and sees what it is, without a passphrase. Errors:
// NotFound; Invalid when it is neither a backup nor a database; Unavailable.
func Open(path string) (*Medium, error) {
	f, err := os.Open(path) //nolint:gosec // the administrator names it
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Wrap(fault.NotFound, "There is no file "+path+": name the backup, and see that its medium is mounted", err)
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, path+" cannot be read ("+reason(err)+")", err)
	}
	head := make([]byte, len(ageMagic))
	n, err := io.ReadFull(f, head)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fault.Wrap(fault.Unavailable, path+" cannot be read ("+reason(err)+")", err), f.Close())
	}
	text := string(head[:n])
	m := &Medium{Path: path, Encrypted: text == ageMagic, file: f}
	if !m.Encrypted && !strings.HasPrefix(text, sqliteMagic) {
		return nil, errors.Join(unknown(path, text), f.Close())
	}
	return m, nil
}

// reason returns the text of a system error without the path, which the sentence has.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// unknown is the error of a file that is neither kind.
func unknown(path, head string) error {
	switch {
	case head == "":
		return fault.New(fault.Invalid, path+" is empty: use another backup")
	case strings.HasPrefix(ageMagic, head):
		return damaged(path, io.ErrUnexpectedEOF)
	default:
		return fault.New(fault.Invalid, path+" is no backup of gatehouse: name a file that gatehouse backup has written, or a copy of a database that an upgrade has kept")
	}
}

// Close closes the file.
func (m *Medium) Close() error { return m.file.Close() }

// Options are how to unpack.
type Options struct {
	Data          string // the data directory, whose lock the caller holds
	Database      Database
	AcceptJournal bool // also one of which a record was changed
}

// Staged is what a restore brings, unpacked and verified in a folder of its own within
// the data directory. Nothing else has been touched.
type Staged struct {
	Manifest                 // of a plain copy: without a version
	Journal  journal.Verdict // may be broken only where that was accepted

	options Options
	medium  string
	folder  string // its name in the data directory
}

// Stage unpacks the archive that [Medium.Pass] writes and verifies all of it; medium is
// the name of the file in messages. Errors: Conflict for a newer version, Invalid for
// damage, Unavailable for the disk. When it fails, it leaves nothing.
func Stage(ctx context.Context, medium string, data io.Reader, o Options) (s *Staged, err error) {
	s = &Staged{options: o, medium: medium}
	folder, err := os.MkdirTemp(o.Data, stagedPrefix) // with mode 0700
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The data directory "+o.Data+" cannot be written to ("+reason(err)+"): run this as root or as the user of the gateway", err)
	}
	s.folder = filepath.Base(folder)
	err = s.unpack(ctx, data)
	if err == nil {
		err = s.verify(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// whole reports whether this is a backup, not a plain copy of a database.
func (s *Staged) whole() bool { return s.Version != "" }

// Discard removes what was unpacked, unless a restore has begun to put it in place.
func (s *Staged) Discard() error {
	return os.RemoveAll(s.path())
}

func (s *Staged) path(below ...string) string {
	return filepath.Join(append([]string{s.options.Data, s.folder}, below...)...)
}

// unpack writes every file of an archive into the folder.
func (s *Staged) unpack(ctx context.Context, data io.Reader) error {
	in, err := openArchive(s.medium, untilDone(ctx, data))
	if err != nil {
		return foreign(s.medium, err)
	}
	s.Manifest = in.Manifest
	if err := durable.CheckRoom(s.options.Data, s.bytes()); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.path())
	if err != nil {
		return err
	}
	err = in.each(func(e Entry, content io.Reader) error { return write(root, e, content) })
	if err := errors.Join(err, root.Close()); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return foreign(s.medium, err)
	}
	return nil
}

// write writes one file of a backup.
func write(root *os.Root, e Entry, content io.Reader) error {
	name := filepath.FromSlash(e.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return full(err)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return full(err)
	}
	_, err = io.Copy(diskWriter{f}, content)
	return errors.Join(err, full(f.Close()))
}

// diskWriter marks errors of writing as those of the disk.
type diskWriter struct{ w io.Writer }

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	return n, full(err)
}

func full(err error) error {
	return fault.Wrap(fault.Unavailable, "The backup cannot be unpacked into the data directory: check free space with df and the disk with dmesg", err)
}

// verify checks the database that was unpacked.
func (s *Staged) verify(ctx context.Context) error {
	name := s.medium
	if s.whole() {
		name = "The database in " + s.medium
	}
	holds, err := s.options.Database.Inspect(ctx, s.path(underData, database), name)
	if err == nil {
		err = s.options.Database.Unaltered(ctx, s.path(underData, database), name)
	}
	if err != nil {
		return err
	}
	if s.Holds.Head == "" { // a former version's manifest
		s.Holds.Head = holds.Head
	}
	if s.whole() && holds != s.Holds {
		return fault.New(fault.Invalid, name+" is not the one that its manifest speaks of: use another backup")
	}
	s.Holds = holds
	if s.Journal, err = s.options.Database.Verify(ctx, s.path(underData, database)); err != nil {
		return fault.Wrap(fault.Invalid, "The journal in "+s.medium+" cannot be read: use another backup", err)
	}
	if s.Journal.Broken != 0 && !s.options.AcceptJournal {
		return fault.New(fault.Invalid, fmt.Sprintf("The journal in %s is broken at record %d (%s): use another backup, or take it as it is with --accept-journal",
			s.medium, s.Journal.Broken, s.Journal.Why))
	}
	return nil
}

// Stamp returns the suffix of the names of what is kept, from the time of the restore.
func Stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }
