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
	"syscall"

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
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", fmt.Errorf("writing the configuration of the backup: %w", err)
		}
		if err := os.WriteFile(path, f.text, 0o600); err != nil {
			return "", fmt.Errorf("writing the configuration of the backup: %w", err)
		}
	}
	return filepath.Join(folder, filepath.Base(mainConfig)), nil
}

// Pass decrypts a backup. It writes the gateway's data to w, as an archive in clear text,
// closes w, and returns the configuration. Meanwhile staged reads that archive, and
// returns when all of it is unpacked or when it has failed; after a failure it reads no
// more and w fails. The configuration may be used, and what was unpacked put in place,
// only when Pass returns no error: then every byte of the file was authenticated. Errors:
// Unauthenticated for a wrong passphrase, Conflict for a newer version, Invalid for
// damage, and those of staged.
func (m *Medium) Pass(ctx context.Context, passphrase site.Secret, w io.WriteCloser, staged func() error) (Draft, error) {
	var draft Draft
	passed := make(chan error, 1)
	go func() {
		var err error
		draft, err = m.pass(ctx, passphrase, w)
		passed <- errors.Join(err, w.Close())
	}()
	unstaged := staged()
	err := <-passed
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		err = cmp.Or(unstaged, err)
	}
	return draft, cmp.Or(err, unstaged)
}

func (m *Medium) pass(ctx context.Context, passphrase site.Secret, w io.Writer) (Draft, error) {
	plain, err := unseal(m.Path, untilDone(ctx, m.file), passphrase)
	if err != nil {
		return Draft{}, err
	}
	in, err := openArchive(m.Path, plain)
	if err != nil {
		return Draft{}, foreign(m.Path, err)
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
	plain, err := unseal(m.Path, untilDone(ctx, m.file), passphrase)
	if err != nil {
		return Manifest{}, err
	}
	in, err := openArchive(m.Path, plain)
	if err != nil {
		return Manifest{}, foreign(m.Path, err)
	}
	return in.Manifest, nil
}
