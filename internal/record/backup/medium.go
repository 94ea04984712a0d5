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
	"golang.org/x/sys/unix"

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

// Open opens a file to restore from and detects its format, without a passphrase. Errors:
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
		return nil, errors.Join(damaged(path, errors.New("it begins neither like a backup nor like a database")), f.Close())
	}
	return m, nil
}

// Close closes the file.
func (m *Medium) Close() error { return m.file.Close() }

func unreadableMedium(path string, err error) error {
	return fault.Wrap(fault.Unavailable, path+" cannot be read ("+reason(err)+"): check the medium that it is on", err)
}

// damaged wraps an error of a file that is not a whole backup with a sentence, unless it
// has one; nil stays nil.
func damaged(path string, err error) error {
	return worded(fault.Invalid, path+
		" is cut off or damaged, or was not written by gatehouse backup: copy it again from where it was made, or use another backup", err)
}

// reason returns the text of a system error without the path, which the sentence names.
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
// where the backup has no main file, which is the first.
func (d Draft) Settings() (files []Loaded) {
	for _, f := range d {
		name, isPart := strings.CutPrefix(f.Name, underConfig+"conf.d/")
		if f.Name == mainConfig || len(files) > 0 && isPart && isConfig("conf.d", name) {
			files = append(files, f)
		}
	}
	return files
}

// Pass writes the archive in a backup to w, in clear text, and returns its manifest and the
// configuration. These may be used, and what w received confirmed, only when Pass returns
// no error: then every byte of the file was authenticated. For a plain copy of a database
// it writes an archive of that file alone, which needs no passphrase and has no version. Errors:
// Unauthenticated for a wrong passphrase, Conflict for a newer version, Invalid for damage,
// and those of w.
func (m *Medium) Pass(ctx context.Context, passphrase site.Secret, w io.Writer) (Manifest, Draft, error) {
	if !m.Encrypted {
		p := &Parcel{Manifest: Manifest{Format: Format}}
		// A link in a folder of another user could name a file that root alone may read.
		err := p.holdDatabase(ctx, m.Path, unix.O_NOFOLLOW)
		if err == nil {
			err = p.Write(w)
		}
		return p.Manifest, nil, errors.Join(err, p.Close())
	}
	plain, err := m.open(ctx, passphrase)
	var in *archive
	if err == nil {
		in, err = openArchive(m.Path, io.TeeReader(plain, w))
	}
	var draft Draft
	if err == nil {
		draft, err = draftOf(in)
	}
	if err == nil {
		// Only the end of the encryption follows the archive; it shows that nothing is
		// missing.
		var n int
		if n, err = plain.Read(make([]byte, 1)); n == 0 && errors.Is(err, io.EOF) {
			return in.Manifest, draft, nil
		}
		err = cmp.Or(err, errors.New("there is data after the archive"))
	}
	return Manifest{}, nil, damaged(m.Path, err)
}

// open decrypts a backup.
func (m *Medium) open(ctx context.Context, passphrase site.Secret) (plain io.Reader, err error) {
	identity, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "The passphrase is empty: enter the one that the backup was made with", err)
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
		return nil, fault.Wrap(fault.Unauthenticated, "The passphrase does not open "+m.Path+": try again with the one that it was made with", err)
	}
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(plain)
}

// draftOf checks all of an archive, and returns its configuration.
func draftOf(in *archive) (d Draft, err error) {
	room := int64(maxDraft)
	err = in.each(func(e Entry, content io.Reader) error {
		if !strings.HasPrefix(e.Name, underConfig) {
			_, err := io.Copy(io.Discard, content)
			return err
		}
		if room -= e.Size; room < 0 || e.Size > maxSmall {
			return fmt.Errorf("reading %s: it is too large for a configuration", e.Name)
		}
		text, err := io.ReadAll(content)
		d = append(d, Loaded{Entry: e, Text: text})
		return err
	})
	return d, err
}
