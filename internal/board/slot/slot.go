// Package slot is the two slots of a board that was started from an image of ours: which
// one runs, which one is the default, their kernels and entries on the boot partition,
// and the one shot that makes the next start try the other slot. It also has the two
// files by which the gateway, as the service user, asks root for an update and reads how
// it goes. It decides nothing: internal/install/update does.
//
// Its promise: a power cut at any moment of any of its writes leaves a board that starts
// the old default or the new one. The commit is one byte of one sector.
package slot

import (
	"errors"
	"io"
)

// Name is the letter of a slot.
type Name string

// The slots.
const (
	A Name = "a"
	B Name = "b"
)

// Other returns the other slot.
func (n Name) Other() Name {
	if n == A {
		return B
	}
	return A
}

// File is a file from which a slot starts, on the boot partition.
type File string

// The files of a slot.
const (
	Kernel File = "vmlinuz"
	Initrd File = "initrd"
)

// EntrySize is the size of each entry of the boot loader on the boot partition, in
// bytes: one sector. A shorter one is padded with newlines.
const EntrySize = 512

// Board is a board with two slots. Its methods are for root, and not to be called
// concurrently: the caller holds the lock of updates.
type Board struct {
	root            string
	family, version string
	running         Name
}

// Open returns the board that this is. The error is NotFound where this system was not
// started from an image of ours, and Conflict where the image is an older one that has no
// slots.
func Open() (*Board, error) { return OpenAt("/") }

// OpenAt is Open for a folder that has /proc, /sys, /dev, /usr/lib and /boot/efi of a
// board. Nothing is mounted there.
func OpenAt(root string) (*Board, error) { return nil, errors.ErrUnsupported }

// Family returns the family of boards, "gatehouse-arm64".
func (b *Board) Family() string { return b.family }

// Version returns the version of the image that runs.
func (b *Board) Version() string { return b.version }

// Running returns the slot that runs.
func (b *Board) Running() Name { return b.running }

// Boot returns the folder of the boot partition.
func (b *Board) Boot() string { return "" }

// Default returns the slot that a start takes when there is no one shot.
func (b *Board) Default() (Name, error) { return "", errors.ErrUnsupported }

// Installed returns the version in a slot, "" when it has no kernel.
func (b *Board) Installed(n Name) (version string, err error) { return "", errors.ErrUnsupported }

// Root returns the partition of a slot's root, on the disk that runs, and its size in
// bytes.
func (b *Board) Root(n Name) (path string, size int64, err error) {
	return "", 0, errors.ErrUnsupported
}

// Change calls change with the boot partition mounted writable, and makes what it wrote
// durable and the partition read-only again, whatever change returns. Not to be nested.
func (b *Board) Change(change func() error) error { return errors.ErrUnsupported }

// Clear removes the kernel and the initrd of a slot, so that it cannot start. Like the
// other methods that write, it is to be called within Change.
func (b *Board) Clear(n Name) error { return errors.ErrUnsupported }

// WriteFile writes a file of a slot from content, which has size bytes, makes it durable,
// and compares what the disk has with sum, read past the cache. A file that is not whole
// is removed. A content that does not have that size or sum is Invalid.
func (b *Board) WriteFile(n Name, f File, content io.Reader, size int64, sum [32]byte) error {
	return errors.ErrUnsupported
}

// WriteEntries replaces the two entries of a slot, each at most [EntrySize] bytes and
// each in place, so that a power cut leaves the old or the new one.
func (b *Board) WriteEntries(n Name, entry, shell []byte) error { return errors.ErrUnsupported }

// SetDefault makes a slot the default, by one byte of loader.conf. A loader.conf of
// another form than the image's is refused.
func (b *Board) SetDefault(n Name) error { return errors.ErrUnsupported }

// OneShot returns the slot that the next start tries once, "" if none.
func (b *Board) OneShot() (Name, error) { return "", errors.ErrUnsupported }

// SetOneShot makes the next start try a slot, once.
func (b *Board) SetOneShot(n Name) error { return errors.ErrUnsupported }

// ClearOneShot removes the one shot, if there is one.
func (b *Board) ClearOneShot() error { return errors.ErrUnsupported }
