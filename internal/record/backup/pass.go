package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// maxDraft bounds the configuration in a backup, which is held in memory, in bytes.
const maxDraft = 8 << 20

// Draft is the configuration in a backup, kept in memory only.
type Draft struct{ files []Loaded }

// Empty reports whether the backup has no configuration.
func (d Draft) Empty() bool {
	return !slices.ContainsFunc(d.files, func(f Loaded) bool { return f.Name == mainConfig })
}

// Write writes the main file and conf.d to a private folder, from which they can be
// read, and returns the path of the main file.
func (d Draft) Write(folder string) (string, error) {
	for _, f := range d.files {
		below := strings.TrimPrefix(f.Name, underConfig)
		if f.Name != mainConfig && filepath.Dir(below) != "conf.d" {
			continue
		}
		path := filepath.Join(folder, filepath.FromSlash(below))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, f.text, 0o600)); err != nil {
			return "", fmt.Errorf("writing the configuration of the backup: %w", err)
		}
	}
	return filepath.Join(folder, filepath.Base(mainConfig)), nil
}

// Pass writes the gateway's data to w, as an archive in clear text, and returns the
// configuration. The configuration may be used, and what w received put in place, only
// when Pass returns no error: then every byte of the file was authenticated. A plain copy
// of a database has no configuration and takes no passphrase. Errors: Unauthenticated for
// a wrong passphrase, Conflict for a newer version, Invalid for damage, and those of w.
func (m *Medium) Pass(ctx context.Context, passphrase site.Secret, w io.Writer) (Draft, error) {
	if !m.Encrypted {
		return Draft{}, m.passPlain(ctx, w)
	}
	in, plain, err := m.open(ctx, passphrase)
	if err != nil {
		return Draft{}, err
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
	if ctx.Err() != nil {
		return Draft{}, ctx.Err()
	}
	return Draft{}, foreign(m.Path, err)
}

// open decrypts a backup and reads its manifest. Behind the archive plain must end.
func (m *Medium) open(ctx context.Context, passphrase site.Secret) (in *archive, plain io.Reader, err error) {
	if plain, err = unseal(m.Path, untilDone(ctx, m.file), passphrase); err != nil {
		return nil, nil, err
	}
	if in, err = openArchive(m.Path, plain); err != nil {
		return nil, nil, foreign(m.Path, err)
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
		return d, err
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
		d.files = append(d.files, Loaded{Entry: e, text: text})
		return err
	})
	return d, errors.Join(err, out.close())
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
