package backup

import (
	"archive/tar"
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
type archiver struct{ tar *tar.Writer }

// newArchiver writes the manifest.
func newArchiver(w io.Writer, m Manifest) (*archiver, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing the manifest: %w", err)
	}
	a := &archiver{tar.NewWriter(w)}
	err = a.tar.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.Created.Time, Format: tar.FormatPAX})
	if err == nil {
		_, err = a.tar.Write(text)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the manifest: %w", err)
	}
	return a, nil
}

// add writes the next file that the manifest names. The reader of the archive
// checks that it is what the manifest states.
func (a *archiver) add(e Entry, content io.Reader) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: e.Name, Mode: int64(e.Mode), Size: e.Size, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("writing %s: %w", e.Name, err)
	}
	if _, err := io.Copy(a.tar, content); err != nil {
		return fmt.Errorf("writing %s: %w", e.Name, err)
	}
	return nil
}

// close ends the archive.
func (a *archiver) close() error { return a.tar.Close() }

// errDiffers means that a file is not what its entry states.
var errDiffers = errors.New("it is not what the manifest states")

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
	if err := json.Unmarshal(text, &struct {
		Format  *int
		Version *string
	}{&a.Format, &a.Version}); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if a.Format != Format {
		return nil, newerFormat(name, a.Manifest)
	}
	if err := json.Unmarshal(text, &a.Manifest); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	return a, a.check()
}

// newerFormat is the error of an archive that this version cannot read.
func newerFormat(name string, m Manifest) error {
	return fault.New(fault.Conflict, fmt.Sprintf(
		"%s is of a newer version: it was made by gatehouse %s in format %d, and this one reads format %d; install gatehouse %[2]s or newer first",
		name, m.Version, m.Format, Format))
}

// each calls use with every file, which is checked as it is read, and sees that the
// archive ends behind the last.
func (a *archive) each(use func(Entry, io.Reader) error) error {
	for _, e := range a.Files {
		head, err := a.tar.Next()
		if err != nil {
			return fmt.Errorf("reading %s: %w", e.Name, unexpected(err))
		}
		if head.Name != e.Name || head.Size != e.Size || head.Typeflag != tar.TypeReg {
			return fmt.Errorf("reading %s: %q of %d bytes is in its place", e.Name, head.Name, head.Size)
		}
		sum := sha256.New()
		if err := use(e, io.TeeReader(a.tar, sum)); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
			return fmt.Errorf("reading %s: %w", e.Name, errDiffers)
		}
	}
	if head, err := a.tar.Next(); err == nil {
		return fmt.Errorf("reading the archive: %q follows its end", head.Name)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the archive: %w", err)
	}
	return nil
}

// unexpected makes the end of the archive an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// entryOf describes a text in memory.
func entryOf(name string, mode uint32, text []byte) Entry {
	sum := sha256.Sum256(text)
	return Entry{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Mode: mode}
}
