package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Format is the version of the archive that this package writes, and the newest that
// it reads.
const Format = 1

// The names within an archive. What is under data goes to the data directory, what is
// under config beside the configuration file.
const (
	manifestName = "manifest.json"
	underData    = "data/"
	underConfig  = "config/"
	mainConfig   = underConfig + "gatehouse.toml"
	database     = "gatehouse.db"
	certificates = "tls"
	// revocations that the database does not have yet, as lines: see package amend. A restore
	// stores them in the database.
	revocations = "revocations.json"
)

// tokenKey is the key of access tokens in the data directory. It is in no backup, because
// it signs. Archives of earlier builds hold it: a restore leaves it out, and sets the one
// of the former gateway aside, so that the next start makes a new one.
const tokenKey = "token.key"

// maxEntries bounds the files of an archive; there are about a dozen.
const maxEntries = 1000

// Manifest is the first entry of an archive.
type Manifest struct {
	Format  int            `json:"format"`
	Version string         `json:"version"` // of the gatehouse that made it
	Created site.Timestamp `json:"created"`
	Holds   site.Inventory `json:"holds"`
	Files   []Entry        `json:"files"` // in the order in which they follow
}

// Entry is one file of an archive.
type Entry struct {
	Name   string `json:"name"` // "data/gatehouse.db", "config/conf.d/50-site.toml"
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal
	Mode   uint32 `json:"mode"`   // the permission bits
}

// check refuses a manifest that no gatehouse has written.
func (m Manifest) check() error {
	if m.Format != Format || len(m.Files) > maxEntries {
		return fmt.Errorf("the manifest has the format %d and names %d files", m.Format, len(m.Files))
	}
	seen := make(map[string]bool)
	for _, e := range m.Files {
		if e.Size < 0 || seen[e.Name] || !e.local() {
			return fmt.Errorf("the manifest names %q, of %d bytes", e.Name, e.Size)
		}
		seen[e.Name] = true
	}
	if !seen[underData+database] {
		return fmt.Errorf("the manifest names no database")
	}
	return nil
}

// local reports whether the name stays where it belongs.
func (e Entry) local() bool {
	below, isData := strings.CutPrefix(e.Name, underData)
	return fs.ValidPath(e.Name) && !strings.ContainsAny(e.Name, "\\\x00") && (isData && dataName(below) || strings.HasPrefix(e.Name, underConfig))
}

// dataName reports whether a file of that name belongs in the data directory.
func dataName(name string) bool {
	return name == database || name == database+"-wal" || name == tokenKey || name == revocations || strings.HasPrefix(name, certificates+"/")
}

// maxManifest bounds what is read of a manifest, in bytes.
const maxManifest = 1 << 20

// archiver writes an archive.
type archiver struct{ *tar.Writer }

// newArchiver writes the manifest.
func newArchiver(w io.Writer, m Manifest) (archiver, error) {
	a := archiver{tar.NewWriter(w)}
	text, _ := json.Marshal(m) // numbers, texts and times can be written
	return a, a.add(Entry{Name: manifestName, Size: int64(len(text)), Mode: 0o600}, bytes.NewReader(text))
}

// add writes the next file. The reader of the archive checks that it is what the manifest
// states.
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

// openArchive reads the manifest; name is the archive's name in messages. Errors: Conflict
// when it is of a newer format; others have no kind.
func openArchive(name string, r io.Reader) (*archive, error) {
	a := &archive{tar: tar.NewReader(r)}
	head, err := a.tar.Next()
	if err == nil && (head.Name != manifestName || head.Size > maxManifest) {
		err = fmt.Errorf("%q of %d bytes is in its place", head.Name, head.Size)
	}
	if err == nil { // a value of another type is an error only after the format and the version are set
		err = json.NewDecoder(a.tar).Decode(&a.Manifest)
	}
	if a.Format > Format {
		return nil, fault.New(fault.Conflict, fmt.Sprintf(
			"%s is of a newer version: it was made by gatehouse %s in format %d, and this one reads format %d; install gatehouse %[2]s or newer first",
			name, a.Version, a.Format, Format))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	return a, a.check()
}

// each calls use with every file, which is checked as it is read, and checks that the
// archive ends after the last.
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

// untilDone returns a reader that fails once ctx has ended.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return reading(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(b)
	})
}
