package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

// Store is the open database of a running gateway.
type Store interface {
	// Snapshot writes a consistent copy to path, without keeping a write waiting;
	// Unavailable when there is no room.
	Snapshot(ctx context.Context, path string) error
}

// Database knows database files that no gateway has open.
type Database interface {
	// Inspect checks a file and returns what it holds; name is its name in messages. NotFound,
	// Conflict for a newer version, Invalid for damage, Unavailable.
	Inspect(ctx context.Context, path, name string) (site.Inventory, error)
	// Unaltered refuses a file whose schema is not the one that gatehouse creates; name
	// is the file's name in messages. Invalid, Unavailable.
	Unaltered(ctx context.Context, path, name string) error
	// Verify checks every record of its journal.
	Verify(ctx context.Context, path string) (journal.Verdict, error)
	// Renew brings a file to this version's schema, ends its sessions unless
	// keepSessions, and appends r to its journal.
	Renew(ctx context.Context, path string, keepSessions bool, r site.Record) (ended int, err error)
}

// Source is the data of one gateway.
type Source struct {
	Data     string // the data directory
	Version  string // of gatehouse
	Database Database
	Now      func() time.Time
}

// Parcel is a gateway's data, ready to be written as an archive, neither compressed nor
// encrypted: only those who may see every secret of the gateway may have it.
type Parcel struct {
	Manifest
	parts []part
	held  []*os.File
}

// part is a file on its way into an archive.
type part struct {
	Entry
	content io.ReadSeeker
}

// snapshotPrefix begins the names of snapshots in the data directory.
const snapshotPrefix = ".backup-"

// Running makes a parcel of a running gateway's data. The copy of the database that it
// needs takes room on the disk of the data directory until Close; its name is gone
// before. Unavailable when there is no room.
func (s Source) Running(ctx context.Context, store Store) (*Parcel, error) {
	path := filepath.Join(s.Data, snapshotPrefix+rand.Text()+".db")
	if err := store.Snapshot(ctx, path); err != nil {
		return nil, err
	}
	p, err := s.parcel(ctx, path, "The copy of the database")
	if gone := os.Remove(path); gone != nil && err == nil {
		return nil, errors.Join(gone, p.Close())
	}
	return p, err
}

// Stopped makes a parcel of a gateway that does not run; the caller holds the lock of
// its data directory, and until Close. Nothing is written, so that it works on a disk
// that is full or has failed.
func (s Source) Stopped(ctx context.Context) (*Parcel, error) {
	path := filepath.Join(s.Data, database)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.NotFound, "There is no database of a gateway in "+s.Data+
			": name the configuration of the gateway with --config, or its data directory with GATEHOUSE_DATA", err)
	}
	return s.parcel(ctx, path, "The database "+path)
}

func (s Source) parcel(ctx context.Context, path, name string) (_ *Parcel, err error) {
	p := &Parcel{Manifest: Manifest{Format: Format, Version: s.Version, Created: site.At(s.Now())}}
	if p.Holds, err = s.Database.Inspect(ctx, path, name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.holdDatabase(ctx, path); err != nil {
		return nil, err
	}
	small, err := s.small()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The keys in "+s.Data+" cannot be read: run this as root or as the user of the gateway", err)
	}
	for _, one := range small {
		p.add(one)
	}
	return p, p.check()
}

// holdDatabase takes a database into the parcel, and its log where a gateway was killed:
// SQLite puts the two together.
func (p *Parcel) holdDatabase(ctx context.Context, path string) error {
	if err := p.hold(ctx, database, path, 0); err != nil {
		return err
	}
	if info, err := os.Lstat(path + "-wal"); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil //nolint:nilerr // SQLite has none either
	}
	return p.hold(ctx, database+"-wal", path+"-wal", unix.O_NOFOLLOW) // root may read where another user writes
}

// hold takes a large file into the parcel. It is held open, so that it stays what was
// measured though its name goes. flag is for open(2), beside O_RDONLY.
func (p *Parcel) hold(ctx context.Context, name, path string, flag int) error {
	f, err := os.OpenFile(path, os.O_RDONLY|flag, 0) //nolint:gosec // of the data directory
	if err != nil {
		return fault.Wrap(fault.Unavailable, path+" cannot be read: run this as root or as the user of the gateway", err)
	}
	p.held = append(p.held, f)
	sum := sha256.New()
	size, err := io.Copy(sum, untilDone(ctx, f))
	if err != nil && ctx.Err() == nil {
		err = fault.Wrap(fault.Unavailable, path+" cannot be read ("+reason(err)+")", err)
	}
	if err != nil {
		return err
	}
	e := Entry{Name: underData + name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Mode: 0o600}
	p.add(part{e, f})
	return nil
}

func (p *Parcel) add(one part) { p.parts, p.Files = append(p.parts, one), append(p.Files, one.Entry) }

// reading is a function that reads.
type reading func([]byte) (int, error)

func (r reading) Read(b []byte) (int, error) { return r(b) }

// untilDone returns a reader that fails when ctx has ended.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return reading(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(b)
	})
}

// maxSmall bounds a file that is taken into memory, in bytes.
const maxSmall = 1 << 20

// small reads the keys and certificates.
func (s Source) small() (parts []part, err error) {
	for _, name := range []string{tokenKey, certificates} {
		err := filepath.WalkDir(filepath.Join(s.Data, name), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
				return err
			}
			text, info, err := readSmall(path)
			if err != nil {
				return err
			}
			below, err := filepath.Rel(s.Data, path)
			parts = append(parts, part{entryOf(underData+filepath.ToSlash(below), uint32(info.Mode().Perm()), text), bytes.NewReader(text)})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return parts, nil
}

// readSmall reads a file that is known to be small.
func readSmall(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path) //nolint:gosec // of the data directory or the configuration
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSmall)
	}
	return text, info, err
}

// Write writes the archive. It may be called once.
func (p *Parcel) Write(w io.Writer) error {
	out, err := newArchiver(w, p.Manifest)
	if err != nil {
		return err
	}
	for _, one := range p.parts {
		_, err := one.content.Seek(0, io.SeekStart)
		if err == nil {
			err = out.add(one.Entry, io.LimitReader(one.content, one.Size))
		}
		if err != nil {
			return err
		}
	}
	return out.close()
}

// Close closes the files that the parcel holds open.
func (p *Parcel) Close() error {
	var errs []error
	for _, f := range p.held {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
