package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
)

const (
	blockSize  = durable.FlushSize // compared and written at once
	flushEvery = 32 << 20          // of a root, whose cache is forgotten then: a board has little memory
)

// write writes an update to the other slot, which cannot start before its last step, and
// returns how many bytes of the root were not there already.
func (u *Updater) write(ctx context.Context, f *updatefile.File) (written int64, err error) {
	other := u.other()
	u.touched = true
	u.state.Waiting, u.state.Slots[other], u.state.Work = nil, content{}, &work{f.Manifest.Version}
	if err := u.save(); err != nil {
		return 0, err
	}
	if err := u.Board.Change(func() error { return u.Board.Clear(other) }); err != nil {
		return 0, unwritten(err)
	}
	path, _, err := u.Board.Root(other)
	if err != nil {
		return 0, unwritten(err)
	}
	if written, err = u.writeRoot(ctx, f, path); err != nil {
		return written, err
	}
	if err := u.readBack(ctx, f, path); err != nil {
		return written, err
	}
	return written, u.Board.Change(func() error { return u.writeBoot(f) })
}

// unwritten words an error of the card.
func unwritten(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(fault.Unavailable, "The card cannot be written ("+err.Error()+"): try again, and with another card if it stays", err)
}

// writeRoot unpacks the root file system to a partition.
func (u *Updater) writeRoot(ctx context.Context, f *updatefile.File, path string) (written int64, err error) {
	root, err := f.Unpack()
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }()
	disk, err := os.OpenFile(path, os.O_RDWR|unix.O_EXCL, 0) //nolint:gosec // of the board; one that is mounted is refused
	if err != nil {
		return 0, unwritten(err)
	}
	defer func() { _ = disk.Close() }()
	p := &patch{disk: disk, path: path, have: make([]byte, blockSize)}
	hash, block, want := sha256.New(), make([]byte, blockSize), f.Manifest.Unpacked()
	progress := u.phase(site.UpdateWriting, f.Manifest.Version)
	for {
		if err := ctx.Err(); err != nil {
			return p.written, err
		}
		n, err := io.ReadFull(root, block)
		_, _ = hash.Write(block[:n])
		if e := p.put(block[:n]); e != nil {
			return p.written, unwritten(e)
		}
		progress.at(p.at, want.Size)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && fault.KindOf(err) == fault.Internal {
			break
		}
		if err != nil {
			return p.written, err
		}
	}
	if updatefile.Sum(hash.Sum(nil)) != want.SHA256 {
		return p.written, fault.New(fault.Invalid, "The update changed while it was read: copy or download it again")
	}
	return p.written, unwritten(p.flush())
}

// patch writes blocks, one after the other, where the disk has others.
type patch struct {
	disk      *os.File
	path      string
	have      []byte
	at        int64
	unflushed int64
	written   int64
}

// put writes a block unless it is there. One that cannot be read is written: a power cut within a
// write may have left it so, and all is read back in the end.
func (p *patch) put(block []byte) error {
	have := p.have[:len(block)]
	if _, err := p.disk.ReadAt(have, p.at); err != nil || !bytes.Equal(have, block) {
		if _, err := p.disk.WriteAt(block, p.at); err != nil {
			return err
		}
		if err := durable.Flush(p.disk, p.at, int64(len(block))); err != nil {
			return err
		}
		p.written += int64(len(block))
	}
	p.at += int64(len(block))
	if p.unflushed += int64(len(block)); p.unflushed >= flushEvery {
		return p.flush()
	}
	return nil
}

// flush brings what was written to the disk, and has the system forget what it cached: the
// memory belongs to the gateway.
func (p *patch) flush() error {
	p.unflushed = 0
	if err := durable.Sync(p.path); err != nil {
		return err
	}
	if err := unix.Fadvise(int(p.disk.Fd()), 0, p.at, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("forgetting what was cached of %s: %w", p.path, err)
	}
	return nil
}

// readBack compares the root on the disk, read past the cache, with the manifest.
func (u *Updater) readBack(ctx context.Context, f *updatefile.File, path string) error {
	want := f.Manifest.Unpacked()
	u.phase(site.UpdateVerifying, f.Manifest.Version).at(0, want.Size)
	got, err := durable.Reread(ctx, path, want.Size)
	if err == nil && got != want.SHA256 {
		err = fault.New(fault.Unavailable, "The card has other bytes than those written to it: it may be worn out, try another one")
	}
	return unwritten(err)
}

// writeBoot writes the kernel, the initrd, and last the entries that make them start.
func (u *Updater) writeBoot(f *updatefile.File) error {
	other, m := u.other(), f.Manifest
	for name, file := range map[updatefile.PartName]slot.File{updatefile.Kernel: slot.Kernel, updatefile.Initrd: slot.Initrd} {
		p := m.Part(name)
		if err := u.Board.WriteFile(other, file, f.Part(name), p.Size, p.SHA256); err != nil {
			return unwritten(err)
		}
	}
	entry, err := f.EntryFor(updatefile.Entry, string(other))
	if err != nil {
		return err
	}
	shell, err := f.EntryFor(updatefile.ShellEntry, string(other))
	if err == nil {
		err = unwritten(u.Board.WriteEntries(other, entry, shell))
	}
	if err != nil {
		return err
	}
	if there, err := u.Board.Installed(other); err != nil || there != m.Version {
		return unwritten(errors.Join(err, fmt.Errorf("slot %s has version %q, want %s", other, there, m.Version)))
	}
	return nil
}
