package backup

import (
	"archive/tar"
	"context"
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

// Breaking is a gateway's files whose disk fails: before is called before each change of
// the disk from the moment at which a restore begins.
type Breaking struct {
	*Staged
	Before func(step string) error
}

// Commit is that of [Staged].
func (b Breaking) Commit(ctx context.Context, t Terms) (Restored, error) {
	return b.commit(ctx, t, swap{data: b.options.Data, before: b.Before})
}

// Forget is that of [Staged].
func (b Breaking) Forget() error { return swap{data: b.options.Data, before: b.Before}.forget() }

// BreakBefore has before called before each change of the disk.
func (p *Placement) BreakBefore(before func(step string) error) { p.before = before }

// forgetting forgets with a disk that fails.
type forgetting swap

func (f forgetting) Forget() error { return swap(f).forget() }

// CompleteBreaking is Complete, and Resume where the configuration is this user's, with a
// disk that fails.
func CompleteBreaking(data string, c *Configuration, before func(step string) error) (waits string, err error) {
	s := swap{data: data, before: before}
	if c == nil {
		return s.complete()
	}
	_, err = c.resume(func(string) (string, interface{ Forget() error }, error) {
		id, err := s.complete()
		return id, forgetting(s), err
	}, before)
	if err != nil {
		return "", err
	}
	return s.complete()
}

// Piece is a piece of an archive that is made by hand.
type Piece struct {
	Name string
	Text []byte
	Type byte // 0: a file
}

// Craft encrypts an archive with any manifest and any pieces, without much work. A last
// piece without a name follows the archive.
func Craft(w io.Writer, passphrase site.Secret, logN int, manifest any, pieces ...Piece) error {
	out, err := seal(w, passphrase, logN)
	if err != nil {
		return err
	}
	behind := []byte(nil)
	if n := len(pieces); n > 0 && pieces[n-1].Name == "" {
		pieces, behind = pieces[:n-1], pieces[n-1].Text
	}
	err = Archive(out, manifest, pieces...)
	_, more := out.Write(behind)
	return errors.Join(err, more, out.Close())
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
func EntryOf(name string, text []byte) Entry { return entryOf(name, 0o600, text) }

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
