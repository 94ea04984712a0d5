package backup

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"filippo.io/age"

	"gatehouse/internal/fault"
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
	f, _, err := openRegular(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.NotFound, "There is no file "+path+": name the backup, and see that its medium is mounted", err)
	}
	if err != nil {
		return nil, unreadableMedium(path, err)
	}
	head := make([]byte, len(ageMagic))
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(unreadableMedium(path, err), f.Close())
	}
	m := &Medium{Path: path, Encrypted: string(head[:n]) == ageMagic, file: f}
	if !m.Encrypted && !strings.HasPrefix(string(head[:n]), sqliteMagic) {
		return nil, errors.Join(damaged(path, errors.New("it begins like no backup and no database")), f.Close())
	}
	return m, nil
}

// Close closes the file.
func (m *Medium) Close() error { return m.file.Close() }

func unreadableMedium(path string, err error) error {
	return fault.Wrap(fault.Unavailable, path+" cannot be read ("+reason(err)+"): check the medium that it is on", err)
}

// damaged words an error of a file whose content is no whole backup, unless it has words;
// nil stays nil.
func damaged(path string, err error) error {
	return worded(fault.Invalid, path+
		" is cut off or damaged, or was not written by gatehouse backup: copy it again from where it was made, or use another backup", err)
}

// reason returns the text of a system error without the path, which the sentence has.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// Draft is the configuration in a backup, in memory only.
type Draft []Loaded

// maxDraft bounds a draft, in bytes.
const maxDraft = 8 << 20

// Settings returns the files that are read as the configuration, in their order; none
// where the backup has no main file.
func (d Draft) Settings() []Loaded {
	var main, parts []Loaded
	for _, f := range d {
		name, isPart := strings.CutPrefix(f.Name, underConfig+"conf.d/")
		switch {
		case f.Name == mainConfig:
			main = append(main, f)
		case isPart && isConfig("conf.d", name):
			parts = append(parts, f)
		}
	}
	if main == nil {
		return nil
	}
	slices.SortFunc(parts, func(a, b Loaded) int { return cmp.Compare(a.Name, b.Name) })
	return append(main, parts...)
}

// Pass writes the gateway's data to w, as an archive in clear text, and returns the
// configuration. The configuration may be used, and what w received confirmed, only
// when Pass returns no error: then every byte of the file was authenticated. A plain copy
// of a database has no configuration and takes no passphrase. Errors: Unauthenticated for
// a wrong passphrase, Conflict for a newer version, Invalid for damage, and those of w.
func (m *Medium) Pass(ctx context.Context, passphrase site.Secret, w io.Writer) (Draft, error) {
	if !m.Encrypted {
		return nil, m.passPlain(ctx, w)
	}
	in, plain, err := m.open(ctx, passphrase)
	if err != nil {
		return nil, err
	}
	draft, err := split(w, in)
	if err == nil {
		// Only the end of the encryption follows the archive; it shows that nothing is
		// missing.
		var n int
		if n, err = plain.Read(make([]byte, 1)); n == 0 && errors.Is(err, io.EOF) {
			return draft, nil
		}
		err = cmp.Or(err, errors.New("there is data after the archive"))
	}
	return nil, m.failed(ctx, err)
}

// failed words an error of the content.
func (m *Medium) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return damaged(m.Path, err)
}

// open decrypts a backup and reads its manifest. Behind the archive plain must end.
func (m *Medium) open(ctx context.Context, passphrase site.Secret) (in *archive, plain io.Reader, err error) {
	identity, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, "The passphrase is empty: enter the one that the backup was made with", err)
	}
	identity.SetMaxWorkFactor(workFactor)
	sealed := reading(func(p []byte) (int, error) {
		n, err := m.file.Read(p)
		if err != nil && !errors.Is(err, io.EOF) {
			err = unreadableMedium(m.Path, err)
		}
		return n, err
	})
	plain, err = age.Decrypt(untilDone(ctx, sealed), identity)
	none, ok := errors.AsType[*age.NoIdentityMatchError](err)
	if ok && slices.Equal(none.StanzaTypes, []string{"scrypt"}) {
		return nil, nil, fault.Wrap(fault.Unauthenticated, "The passphrase does not open "+m.Path+": try again with the one that it was made with", err)
	}
	if err == nil {
		plain, err = gzip.NewReader(plain)
	}
	if err == nil {
		in, err = openArchive(m.Path, plain)
	}
	if err != nil {
		return nil, nil, m.failed(ctx, err)
	}
	return in, plain, nil
}

// passPlain writes a database, and its log where a gateway was killed over it.
func (m *Medium) passPlain(ctx context.Context, w io.Writer) error {
	p := &Parcel{Manifest: Manifest{Format: Format}}
	err := p.holdDatabase(ctx, m.Path)
	if err == nil {
		err = p.Write(w)
	}
	return errors.Join(err, p.Close())
}

// split writes the gateway's data to w, and returns the configuration.
func split(w io.Writer, in *archive) (d Draft, err error) {
	m := in.Manifest
	m.Files = slices.DeleteFunc(slices.Clone(in.Files), func(e Entry) bool { return strings.HasPrefix(e.Name, underConfig) })
	out, err := newArchiver(w, m)
	if err != nil {
		return nil, err
	}
	room := int64(maxDraft)
	err = in.each(func(e Entry, content io.Reader) error {
		if !strings.HasPrefix(e.Name, underConfig) {
			return out.add(e, content)
		}
		if room -= e.Size; room < 0 || e.Size > maxSmall {
			return fmt.Errorf("reading %s: it is too large for a configuration", e.Name)
		}
		text, err := io.ReadAll(content)
		d = append(d, Loaded{Entry: e, Text: text})
		return err
	})
	return d, errors.Join(err, out.Close())
}

// ReadManifest reads the manifest of a backup, and nothing else. Errors:
// Unauthenticated for a wrong passphrase, Invalid for damage or a plain copy of a
// database, which has none.
func (m *Medium) ReadManifest(ctx context.Context, passphrase site.Secret) (Manifest, error) {
	if !m.Encrypted {
		return Manifest{}, fault.New(fault.Invalid, m.Path+" is no backup, but a plain copy of a database")
	}
	in, _, err := m.open(ctx, passphrase)
	if err != nil {
		return Manifest{}, err
	}
	return in.Manifest, nil
}
