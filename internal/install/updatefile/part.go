package updatefile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"gatehouse/internal/fault"
)

// Part returns the bytes of a part as they are in the file. The caller compares them with
// the manifest.
func (f *File) Part(name PartName) io.Reader {
	at := f.begin
	for _, p := range f.Manifest.Parts {
		if p.Name == name {
			return io.NewSectionReader(f.from, at, p.Size)
		}
		at += p.Size
	}
	return bytes.NewReader(nil)
}

// Verify reads every part and compares it with the manifest. It calls step with the
// number of bytes that were read since the last call. Errors are Invalid, or that of ctx.
func (f *File) Verify(ctx context.Context, step func(int64)) error {
	for _, p := range f.Manifest.Parts {
		if err := compare(ctx, f.Part(p.Name), p.Content, step); err != nil {
			return err
		}
	}
	return nil
}

// VerifyRoot unpacks the root file system, writes it nowhere and compares it with the
// manifest, as Verify does.
func (f *File) VerifyRoot(ctx context.Context, step func(int64)) error {
	root, err := f.Unpack()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return compare(ctx, root, f.Manifest.Unpacked(), step)
}

// errDamaged is the refusal of parts that are not those of the manifest.
func errDamaged(err error) error {
	return fault.Wrap(fault.Invalid, "The update is damaged: copy or download it again", err)
}

var errOther = errors.New("a part is another than that of the manifest")

// compare reads a content to its end and compares it.
func compare(ctx context.Context, r io.Reader, want Content, step func(int64)) error {
	hash, buffer, size := sha256.New(), make([]byte, 256<<10), int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buffer)
		_, _ = hash.Write(buffer[:n])
		size += int64(n)
		step(int64(n))
		switch {
		case errors.Is(err, io.EOF):
			if got := Sum(hash.Sum(nil)); size != want.Size || got != want.SHA256 {
				return errDamaged(errOther)
			}
			return nil
		case err != nil && fault.KindOf(err) == fault.Internal:
			return errDamaged(err)
		case err != nil:
			return err
		}
	}
}

// Unpack returns the root file system. It reads exactly as many bytes as the manifest
// says, or fails with an error that is Invalid: whatever the stream holds, no more is
// unpacked. The caller compares the hash, and closes it.
func (f *File) Unpack() (io.ReadCloser, error) {
	decoder, err := zstd.NewReader(f.Part(Root),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, errDamaged(err)
	}
	return &unpacking{decoder: decoder, left: f.Manifest.Unpacked().Size}, nil
}

// unpacking reads a root file system.
type unpacking struct {
	decoder *zstd.Decoder
	left    int64
}

// Read implements [io.Reader].
func (u *unpacking) Read(p []byte) (n int, err error) {
	if u.left == 0 {
		if n, err = u.decoder.Read(make([]byte, 1)); n > 0 {
			return 0, errDamaged(errors.New("the root has more bytes than the manifest says"))
		}
		if err == nil || errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, errDamaged(err)
	}
	n, err = u.decoder.Read(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	switch {
	case err == nil, errors.Is(err, io.EOF) && u.left == 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return n, errDamaged(io.ErrUnexpectedEOF)
	default:
		return n, errDamaged(err)
	}
}

// Close releases the memory of the decoder.
func (u *unpacking) Close() error {
	u.decoder.Close()
	return nil
}

// EntryFor returns an entry of the boot loader, Entry or ShellEntry, for the slot of that
// letter. The error is Invalid.
func (f *File) EntryFor(name PartName, letter string) ([]byte, error) {
	p := f.Manifest.Part(name)
	text, err := io.ReadAll(f.Part(name))
	if err == nil && Sum(sha256.Sum256(text)) != p.SHA256 {
		err = errOther
	}
	if err != nil {
		return nil, errDamaged(err)
	}
	return bytes.ReplaceAll(text, []byte(SlotMark), []byte(letter)), nil
}
