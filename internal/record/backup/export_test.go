package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// The names that a restore leaves in the data directory.
const (
	ReadyPrefix  = readyPrefix
	StagedPrefix = stagedPrefix
	KeptPrefix   = keptPrefix
)

// MaxWork is the most work that a file may ask for.
const MaxWork = workFactor

// CutShort makes the first n moves of a restore that has begun in a data directory, as if
// the power had failed then, and reports whether there were more.
func CutShort(data string, n int) (more bool, err error) {
	begun, err := named(data, readyPrefix)
	if err != nil || len(begun) == 0 {
		return false, err
	}
	left, err := moves(data, begun[0])
	for i := 0; i < n && i < len(left) && err == nil; i++ {
		err = left[i].make()
	}
	return n < len(left), err
}

// Piece is a piece of an archive that is made by hand.
type Piece struct {
	Name string
	Text []byte
	Type byte // 0: a file
}

// Craft encrypts an archive with any manifest and any pieces, without much work. A last
// piece without a name follows the archive.
func Craft(w io.Writer, passphrase site.Secret, cost int, manifest any, pieces ...Piece) error {
	out, finish, err := seal(w, passphrase, cost)
	if err != nil {
		return err
	}
	behind := []byte(nil)
	if n := len(pieces); n > 0 && pieces[n-1].Name == "" {
		pieces, behind = pieces[:n-1], pieces[n-1].Text
	}
	err = Archive(out, manifest, pieces...)
	_, more := out.Write(behind)
	return errors.Join(err, more, finish())
}

// Archive writes an archive with any manifest and any pieces.
func Archive(w io.Writer, manifest any, pieces ...Piece) error {
	text, ok := manifest.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(manifest); err != nil {
			return err
		}
	}
	out := tar.NewWriter(w)
	for _, p := range append([]Piece{{Name: manifestName, Text: text}}, pieces...) {
		head := &tar.Header{Name: p.Name, Typeflag: p.Type, Mode: 0o600, Size: int64(len(p.Text))}
		if p.Type == tar.TypeSymlink {
			head.Linkname, head.Size, p.Text = string(p.Text), 0, nil
		}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		if _, err := out.Write(p.Text); err != nil {
			return err
		}
	}
	return out.Close()
}

// EntryOf describes a text.
func EntryOf(name string, text []byte) Entry {
	sum := sha256.Sum256(text)
	return Entry{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Mode: 0o600}
}

// ReadArchive reads an archive in clear text and returns the names and the bytes of what
// it holds.
func ReadArchive(r io.Reader) (files map[string][]byte, err error) {
	in, err := openArchive("The archive", r)
	if err != nil {
		return nil, err
	}
	files = map[string][]byte{}
	err = in.each(func(e Entry, content io.Reader) error {
		text, err := io.ReadAll(content)
		files[e.Name] = text
		return err
	})
	return files, err
}

// Reader returns the archive of the parcel to read. Closing it closes the parcel.
func (p *Parcel) Reader() io.ReadCloser {
	from, to := io.Pipe()
	r := &parcelReader{PipeReader: from, parcel: p, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		err := p.Write(to)
		to.CloseWithError(fault.Wrap(fault.Unavailable, "The data of the gateway cannot be read: check the disk with dmesg", err))
	}()
	return r
}

// parcelReader is a parcel that is written as it is read.
type parcelReader struct {
	*io.PipeReader
	parcel *Parcel
	done   chan struct{}
}

// Close ends the writing and waits for it.
func (r *parcelReader) Close() error {
	err := r.PipeReader.Close()
	<-r.done
	return errors.Join(err, r.parcel.Close())
}
