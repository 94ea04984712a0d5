package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
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
	if m.Encrypted || strings.HasPrefix(text, sqliteMagic) {
		return m, nil
	}
	return nil, errors.Join(unknown(path, text), f.Close())
}

// reason words an error of the system without the path, which stands beside it.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// unknown says of a file what it is not.
func unknown(path, head string) error {
	switch {
	case head == "":
		return fault.New(fault.Invalid, path+" is empty: use another backup")
	case strings.HasPrefix(ageMagic, head):
		return cutOff(path, io.ErrUnexpectedEOF)
	default:
		return fault.New(fault.Invalid, path+" is no backup of gatehouse: name a file that gatehouse backup has written, or a copy of a database that an upgrade has kept")
	}
}

// Close closes the file.
func (m *Medium) Close() error { return m.file.Close() }

// Options say how to unpack.
type Options struct {
	Data          string // the data directory, whose lock the caller holds
	Passphrase    site.Secret
	Database      Database
	AcceptJournal bool // also one of which a record was changed
}

// Staged is what a restore brings, unpacked and verified in a folder of its own within
// the data directory. Nothing else has been touched.
type Staged struct {
	Manifest // of a plain copy: what it holds alone
	Whole    bool
	Journal  journal.Verdict // may be broken only where that was accepted

	options Options
	medium  string
	folder  string // its name in the data directory
	laid    []change
}

// Stage unpacks a medium and verifies all of it. The kinds of its errors tell the causes
// apart: Unauthenticated for a wrong passphrase, Conflict for a newer version, Invalid
// for damage. When it fails, it leaves nothing.
func Stage(ctx context.Context, m *Medium, o Options) (s *Staged, err error) {
	s = &Staged{options: o, medium: m.Path, Whole: m.Encrypted}
	folder, err := os.MkdirTemp(o.Data, stagedPrefix) // with mode 0700
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The data directory "+o.Data+" cannot be written to ("+reason(err)+"): run this as root or as the user of the gateway", err)
	}
	s.folder = filepath.Base(folder)
	unpack := s.copyPlain
	if m.Encrypted {
		unpack = s.unpack
	}
	err = unpack(ctx, m.file)
	if err == nil {
		err = s.verify(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// Discard removes what was unpacked, unless a restore has begun to put it in place.
func (s *Staged) Discard() error {
	if m, err := (swap{data: s.options.Data}).read(); err == nil && m.Staged == s.folder {
		return nil
	}
	var errs []error
	for _, c := range s.laid {
		err := os.Remove(c.Target + restoredSuffix)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			errs = append(errs, err)
		}
	}
	s.laid = nil
	return errors.Join(append(errs, os.RemoveAll(s.path()))...)
}

func (s *Staged) path(below ...string) string {
	return filepath.Join(append([]string{s.options.Data, s.folder}, below...)...)
}

// Config gives the path of the main file of the configuration as it was unpacked, beside
// which the rest of it stands; "" where the backup has none.
func (s *Staged) Config() string {
	for _, e := range s.Files {
		if e.Name == mainConfig {
			return s.path(filepath.FromSlash(mainConfig))
		}
	}
	return ""
}

// unpack writes every file of a backup into the folder.
func (s *Staged) unpack(ctx context.Context, file io.Reader) error {
	plain, err := unseal(s.medium, heeding(ctx, file), s.options.Passphrase)
	if err != nil {
		return err
	}
	in, err := openArchive(s.medium, plain)
	if err != nil {
		return foreign(s.medium, err)
	}
	s.Manifest = in.Manifest
	if err := checkRoom(s.options.Data, s.bytes()); err != nil {
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
	// What follows the archive is nothing but the end of the encryption, which says that
	// nothing is missing.
	n, err := plain.Read(make([]byte, 1))
	if n == 0 && errors.Is(err, io.EOF) {
		return nil
	}
	return foreign(s.medium, cmp.Or(err, errors.New("something stands behind the archive")))
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
	return errors.Join(err, full(f.Chmod(os.FileMode(e.Mode).Perm()|0o600)), full(f.Close()))
}

// diskWriter says of an error that the disk is to blame.
type diskWriter struct{ w io.Writer }

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	return n, full(err)
}

func full(err error) error {
	return fault.Wrap(fault.Unavailable, "The backup cannot be unpacked into the data directory: check free space with df and the disk with dmesg", err)
}

// copyPlain copies a database, and its log where it has one.
func (s *Staged) copyPlain(ctx context.Context, file io.Reader) error {
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.medium + suffix); err == nil {
			size += info.Size()
		}
	}
	if err := checkRoom(s.options.Data, size); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.path())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	err = write(root, Entry{Name: underData + database, Mode: 0o600}, heeding(ctx, file))
	if err == nil {
		err = s.copyLog(ctx, root)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, s.medium+" cannot be read ("+reason(err)+")", err)
}

// copyLog copies the log of a database that a gateway was killed over.
func (s *Staged) copyLog(ctx context.Context, root *os.Root) error {
	wal, err := os.Open(s.medium + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(write(root, Entry{Name: underData + database + "-wal", Mode: 0o600}, heeding(ctx, wal)), wal.Close())
}

// verify checks the database that was unpacked.
func (s *Staged) verify(ctx context.Context) error {
	name := s.medium
	if s.Whole {
		name = "The database in " + s.medium
	}
	holds, err := s.options.Database.Inspect(ctx, s.path(underData, database), name)
	if err == nil {
		err = s.options.Database.Unaltered(ctx, s.path(underData, database), name)
	}
	if err != nil {
		return err
	}
	if s.Whole && holds != s.Holds {
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

// stamp names what is kept after the moment of the restore.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }
