package slot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// File is a file from which a slot starts, on the boot partition.
type File string

// The files of a slot.
const (
	Kernel File = "vmlinuz"
	Initrd File = "initrd"
)

// kernelPath returns where a file of a slot is.
func (b *Board) kernelPath(n Name, f File) string {
	return filepath.Join(b.Boot(), "gatehouse", string(n), string(f))
}

// checkIdle refuses to write to what starts: a power cut would leave a board that does not.
func (b *Board) checkIdle(n Name) error {
	standard, err := b.Default()
	if err != nil {
		return err
	}
	if n == b.running || n == standard {
		return fault.New(fault.Conflict, fmt.Sprintf("Slot %s is not written to: slot %s runs and slot %s is the default; restart the board and try again",
			n, b.running, standard))
	}
	return nil
}

// Replaced returns the files on the boot partition that Clear removes: the kernel and the
// initrd of a slot, and what fsck.vfat has saved of files that a power cut left unfinished.
func (b *Board) Replaced(n Name) []string {
	saved, _ := filepath.Glob(filepath.Join(b.Boot(), "FSCK*.REC")) // a pattern that is right
	return append(saved, b.kernelPath(n, Kernel), b.kernelPath(n, Initrd))
}

// Clear blanks the entries of a slot and removes what Replaced returns, so that it cannot
// start, and a one shot. Like the other methods that write, it is to be called
// within Change. The error is Conflict for the slot that runs and for the default.
func (b *Board) Clear(n Name) error {
	if err := b.checkIdle(n); err != nil {
		return err
	}
	if err := b.confirmDefault(); err != nil {
		return err
	}
	if err := errors.Join(b.ClearOneShot(), b.WriteEntries(n, nil, nil)); err != nil {
		return err
	}
	for _, path := range b.Replaced(n) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	folder := filepath.Dir(b.kernelPath(n, Kernel))
	return errors.Join(os.MkdirAll(folder, 0o700), durable.Sync(folder))
}

// WriteFile writes a file of a slot from content, which has size bytes, makes it durable,
// and compares what the disk has with sum, read past the cache. A file that is not whole
// is removed. The slot must have been cleared. The error is Invalid for a content of another size or sum, Unavailable
// where there is no room, and Conflict as with Clear.
func (b *Board) WriteFile(n Name, f File, content io.Reader, size int64, sum [sha256.Size]byte) error {
	if err := b.checkIdle(n); err != nil {
		return err
	}
	path := b.kernelPath(n, f)
	folder := filepath.Dir(path)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.CheckRoom(folder, size); err != nil {
		return err
	}
	err := writeFile(path, content, size, sum)
	if err == nil {
		err = errors.Join(durable.Sync(folder), b.verify(path, size, sum))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// writeFile makes a file of content, which must have that size and sum, and makes it durable.
func writeFile(path string, content io.Reader, size int64, sum [sha256.Size]byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // of the board
	if err != nil {
		return err
	}
	digest, written := sha256.New(), int64(0)
	for err == nil && written <= size {
		var n int64
		n, err = io.CopyN(io.MultiWriter(f, digest), content, min(durable.FlushSize, size+1-written))
		err = cmp.Or(durable.Flush(f, written, n), err)
		written += n
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if written != size || [sha256.Size]byte(digest.Sum(nil)) != sum {
		return fault.New(fault.Invalid, "The "+filepath.Base(path)+" of the update is not the one that was signed")
	}
	return durable.Sync(path)
}

// reread reads a small file back: nothing interrupts that.
func reread(path string, size int64) ([sha256.Size]byte, error) {
	return durable.Reread(context.Background(), path, size)
}

// verify compares what the disk has with what was written.
func (b *Board) verify(path string, size int64, sum [sha256.Size]byte) error {
	got, err := b.reread(path, size)
	if err == nil && got != sum {
		err = fault.New(fault.Unavailable, "The card has other bytes than those written to "+path+": it may be worn out, try another one")
	}
	return err
}
