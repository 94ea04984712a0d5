package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/slate"
	"gatehouse/internal/site"
)

// Database knows database files that no gateway has open.
type Database interface {
	// Inspect checks a file and returns what it holds; name is its name in messages. NotFound,
	// Conflict for a newer version, Invalid for damage, Unavailable.
	Inspect(ctx context.Context, path, name string) (site.Inventory, error)
	// Audit is Inspect that also checks every record of the journal, and refuses a file whose
	// schema is not the one that gatehouse creates.
	Audit(ctx context.Context, path, name string) (site.Inventory, journal.Verdict, error)
	// Renew brings a file to this version's schema, stores those revocations that it does not
	// have yet, ends its sessions unless keepSessions, and appends r to its journal.
	Renew(ctx context.Context, path string, revocations []site.Amendment, keepSessions bool, r site.Record) (revoked, ended int, err error)
}

// Source is the data of one gateway.
type Source struct {
	Data     string // the data directory
	Runtime  string // the runtime directory of the gateway, for [Source.Stopped]
	Version  string // of gatehouse
	Database Database
	Now      func() time.Time
	// WithoutTLS leaves out the gateway's own certificates with their keys, for a backup
	// that leaves by the network: with the key of the authority its reader could pose as the
	// gateway to every phone that trusts it.
	WithoutTLS bool
}

// Parcel is a gateway's data, ready to be written as an archive, neither compressed nor
// encrypted: only those who may see every secret of the gateway may have it.
type Parcel struct {
	Manifest
	held []io.ReadSeekCloser // in the order of Files; files are kept open, so that the content stays when the name is removed
}

// snapshotPrefix begins the names of snapshots in the data directory.
const snapshotPrefix = ".backup-"

// Running makes a parcel of a running gateway's data. snapshot writes a consistent copy of
// the database to a path, without keeping a write waiting. The copy takes room on the disk
// of the data directory until Close; its name is removed at once. unstored are the revocations
// that the database did not have directly before, as lines, see [amend.Decode]. Errors are those of
// snapshot, and Unavailable.
func (s Source) Running(ctx context.Context, unstored []byte, snapshot func(ctx context.Context, path string) error) (*Parcel, error) {
	path := filepath.Join(s.Data, snapshotPrefix+rand.Text()+".db")
	if err := snapshot(ctx, path); err != nil {
		return nil, err
	}
	p, err := s.parcel(ctx, path, "The copy of the database")
	if gone := os.Remove(path); gone != nil && err == nil {
		return nil, errors.Join(gone, p.Close())
	}
	if err != nil {
		return nil, err
	}
	p.holdRevocations(unstored)
	return p, nil
}

// Stopped makes a parcel of a gateway that does not run; the caller holds the lock of
// its data directory until Close. Nothing is written, so that it works on a disk
// that is full or has failed.
func (s Source) Stopped(ctx context.Context) (*Parcel, error) {
	path := filepath.Join(s.Data, database)
	p, err := s.parcel(ctx, path, "The database "+path)
	if fault.Is(err, fault.NotFound) {
		err = fault.Wrap(fault.NotFound, "There is no database of a gateway in "+s.Data+
			": name the configuration of the gateway with --config, or its data directory with GATEHOUSE_DATA", err)
	}
	if err != nil {
		return nil, err
	}
	unstored, _ := slate.Read(s.Data, s.Runtime, string(p.Holds.Gateway)) // the next start reports what is damaged
	p.holdRevocations(unstored)
	return p, nil
}

func (s Source) parcel(ctx context.Context, path, name string) (*Parcel, error) {
	p := &Parcel{Manifest: Manifest{Format: Format, Version: s.Version, Created: site.At(s.Now())}}
	holds, err := s.Database.Inspect(ctx, path, name)
	if err != nil {
		return nil, err
	}
	p.Holds = holds
	err = p.holdDatabase(ctx, path, 0)
	if err == nil && !s.WithoutTLS {
		err = p.holdCertificates(ctx, s.Data)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// holdDatabase takes a database into the parcel, and its log where a gateway was killed:
// SQLite puts the two together. flag is that of hold.
func (p *Parcel) holdDatabase(ctx context.Context, path string, flag int) error {
	if err := p.hold(ctx, database, path, flag); err != nil {
		return err
	}
	if info, err := os.Lstat(path + "-wal"); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil //nolint:nilerr // SQLite has none either
	}
	return p.hold(ctx, database+"-wal", path+"-wal", unix.O_NOFOLLOW) // root may read where another user writes
}

// holdCertificates takes the gateway's own certificates and their keys into the parcel,
// except hidden files.
func (p *Parcel) holdCertificates(ctx context.Context, data string) error {
	return filepath.WalkDir(filepath.Join(data, certificates), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		below, _ := filepath.Rel(data, path) // it is below
		return p.hold(ctx, filepath.ToSlash(below), path, unix.O_NOFOLLOW)
	})
}

// holdRevocations takes revocations into the parcel that the database may not have.
func (p *Parcel) holdRevocations(unstored []byte) {
	if len(unstored) == 0 {
		return
	}
	sum := sha256.Sum256(unstored)
	p.Files = append(p.Files, Entry{Name: underData + revocations, Size: int64(len(unstored)), SHA256: hex.EncodeToString(sum[:]), Mode: 0o600})
	p.held = append(p.held, inMemory{bytes.NewReader(unstored)})
}

// inMemory is a part of a parcel that is no file.
type inMemory struct{ *bytes.Reader }

// Close implements [io.Closer].
func (inMemory) Close() error { return nil }

// hold takes one file into the parcel. flag is for open(2), beside O_RDONLY.
func (p *Parcel) hold(ctx context.Context, name, path string, flag int) error {
	f, info, err := openRegular(path, flag)
	sum, size := sha256.New(), int64(0)
	if err == nil {
		p.held = append(p.held, f)
		size, err = io.Copy(sum, untilDone(ctx, f))
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, path+" cannot be read ("+reason(err)+"): run this as root or as the user of the gateway", err)
	}
	e := Entry{Name: underData + name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Mode: uint32(info.Mode().Perm())}
	p.Files = append(p.Files, e)
	return nil
}

// Write writes the archive. It may be called once.
func (p *Parcel) Write(w io.Writer) error {
	out, err := newArchiver(w, p.Manifest)
	if err != nil {
		return err
	}
	for i, f := range p.held {
		_, err := f.Seek(0, io.SeekStart)
		if err == nil {
			err = out.add(p.Files[i], io.LimitReader(f, p.Files[i].Size))
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}

// Close closes the files that the parcel holds open.
func (p *Parcel) Close() error {
	var errs []error
	for _, f := range p.held {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
