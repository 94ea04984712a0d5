package updatefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

const (
	firstLine     = "gatehouse-update 1\n"
	maxSignatures = 4
	// window is how far back a root refers to itself, in bytes: memory of the board.
	window = 8 << 20
)

// Release is what an update is made of.
type Release struct {
	Family  string
	Version string
	Schema  int
	Time    time.Time

	Kernel, Initrd, Entry, ShellEntry io.ReadSeeker
	Root                              io.Reader // the file system as it is to be on the disk
	Scratch                           string    // a folder for the compressed root; "" is the system's
}

// Pack writes an update file that each of the signers has signed, 1 to 4. It keeps the
// compressed root in a file of r.Scratch meanwhile.
func Pack(w io.Writer, r Release, signers ...api.PrivateKey) (Manifest, error) {
	if len(signers) < 1 || len(signers) > maxSignatures {
		return Manifest{}, fmt.Errorf("an update has 1 to %d signatures, not %d", maxSignatures, len(signers))
	}
	m := Manifest{Family: r.Family, Version: r.Version, Schema: r.Schema, Time: site.At(r.Time)}
	packed, root, err := compress(r.Scratch, r.Root)
	if err != nil {
		return m, fmt.Errorf("compressing the root file system: %w", err)
	}
	defer func() { _ = packed.Close() }()
	contents := []io.ReadSeeker{r.Kernel, r.Initrd, r.Entry, r.ShellEntry, packed}
	for i, name := range names() {
		part := Part{Name: name}
		if part.Content, err = measure(contents[i]); err != nil {
			return m, fmt.Errorf("reading the part %s: %w", name, err)
		}
		if name == Root {
			part.Unpacked = &root
		}
		m.Parts = append(m.Parts, part)
	}
	if err := m.check(); err != nil {
		return m, err
	}
	head, err := seal(m, signers)
	if err == nil {
		_, err = w.Write(head)
	}
	for i, part := range m.Parts {
		if err == nil {
			_, err = io.CopyN(w, contents[i], part.Size)
		}
	}
	if err != nil {
		return m, fmt.Errorf("writing the update: %w", err)
	}
	return m, nil
}

// seal returns what stands before the parts.
func seal(m Manifest, signers []api.PrivateKey) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing the manifest: %w", err)
	}
	head := bytes.NewBufferString(firstLine)
	for _, key := range signers {
		signature := key.SignText(append([]byte(firstLine), text...))
		_, _ = fmt.Fprintf(head, "%s %s\n", key.Public().ID, base64.StdEncoding.EncodeToString(signature))
	}
	_, _ = fmt.Fprintf(head, "manifest %d\n%s", len(text), text)
	return head.Bytes(), nil
}

// measure returns the size and the hash of a content and seeks back to its beginning.
func measure(content io.ReadSeeker) (c Content, err error) {
	hash := sha256.New()
	if c.Size, err = io.Copy(hash, content); err != nil {
		return c, err
	}
	hash.Sum(c.SHA256[:0])
	_, err = content.Seek(0, io.SeekStart)
	return c, err
}

// compress writes root compressed to a file in a folder, which has no name any more, and
// returns what root was.
func compress(folder string, root io.Reader) (*os.File, Content, error) {
	f, err := os.CreateTemp(folder, "gatehouse-update-*")
	if err != nil {
		return nil, Content{}, err
	}
	c, err := compressTo(f, root)
	err = errors.Join(err, os.Remove(f.Name()))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, c, errors.Join(err, f.Close())
	}
	return f, c, nil
}

func compressTo(w io.Writer, root io.Reader) (c Content, err error) {
	encoder, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return c, err
	}
	hash := sha256.New()
	c.Size, err = io.Copy(io.MultiWriter(encoder, hash), root)
	hash.Sum(c.SHA256[:0])
	return c, errors.Join(err, encoder.Close())
}
