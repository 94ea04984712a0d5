package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gatehouse/internal/fault"
)

// maxManifest bounds what is read of a manifest, in bytes.
const maxManifest = 1 << 20

// archiver writes an archive.
type archiver struct{ *tar.Writer }

// newArchiver writes the manifest.
func newArchiver(w io.Writer, m Manifest) (archiver, error) {
	a := archiver{tar.NewWriter(w)}
	text, err := json.Marshal(m)
	if err == nil {
		err = a.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.Created.Time, Format: tar.FormatPAX})
	}
	if err == nil {
		_, err = a.Write(text)
	}
	if err != nil {
		return a, fmt.Errorf("writing the manifest: %w", err)
	}
	return a, nil
}

// add writes the next file that the manifest names. The reader of the archive
// checks that it is what the manifest states.
func (a archiver) add(e Entry, content io.Reader) error {
	err := a.WriteHeader(&tar.Header{Name: e.Name, Mode: int64(e.Mode), Size: e.Size, Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(a, content)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", e.Name, err)
	}
	return nil
}

// archive is an archive that is read.
type archive struct {
	tar *tar.Reader
	Manifest
}

// openArchive reads the manifest; name is how people know the archive. Errors: Conflict
// when it is of a newer format; others have no kind.
func openArchive(name string, r io.Reader) (*archive, error) {
	a := &archive{tar: tar.NewReader(r)}
	head, err := a.tar.Next()
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if head.Name != manifestName || head.Size > maxManifest {
		return nil, fmt.Errorf("reading the manifest: %q of %d bytes is in its place", head.Name, head.Size)
	}
	text, err := io.ReadAll(a.tar)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	// A value of another type stops json only after it has set the format and version.
	if err = json.Unmarshal(text, &a.Manifest); a.Format > Format {
		return nil, fault.New(fault.Conflict, fmt.Sprintf(
			"%s is of a newer version: it was made by gatehouse %s in format %d, and this one reads format %d; install gatehouse %[2]s or newer first",
			name, a.Version, a.Format, Format))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	return a, a.check()
}

// each calls use with every file, which is checked as it is read, and sees that the
// archive ends behind the last.
func (a *archive) each(use func(Entry, io.Reader) error) error {
	for _, e := range a.Files {
		head, err := a.tar.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", e.Name, err)
		}
		if head.Name != e.Name || head.Size != e.Size || head.Typeflag != tar.TypeReg {
			return fmt.Errorf("reading %s: %q of %d bytes is in its place", e.Name, head.Name, head.Size)
		}
		sum := sha256.New()
		if err := use(e, io.TeeReader(a.tar, sum)); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
			return fmt.Errorf("reading %s: it is not what the manifest states", e.Name)
		}
	}
	if head, err := a.tar.Next(); err == nil {
		return fmt.Errorf("reading the archive: %q follows its end", head.Name)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the archive: %w", err)
	}
	return nil
}

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
