package durable

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// rereadSize is how much Reread reads at once, in bytes: a multiple of every block size.
const rereadSize = 1 << 20

// FlushSize is how much is on its way to the disk at once, in bytes, where much is written.
const FlushSize = 256 << 10

// Overwrite writes content over a part of a file that exists, in place, and returns when
// it is on the disk. Within one sector, which is 512 bytes at a multiple of 512, a power
// cut leaves the old bytes or the new ones: for file systems such as FAT, where replacing
// a file by renaming is several writes.
func Overwrite(path string, offset int64, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // the caller answers for the path
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, offset); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Flush waits until the disk has a part of a file that was written. A commit beside it waits
// for what the disk has queued: a caller that writes much flushes each [FlushSize], so that a door
// that opens meanwhile waits for no more. It promises nothing after a power cut
// (sync_file_range(2)).
func Flush(f *os.File, offset, size int64) error {
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if err := unix.SyncFileRange(int(f.Fd()), offset, size, wait); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("flushing %s: %w", f.Name(), err)
	}
	return nil
}

// Reread returns the SHA-256 of the first size bytes of a file or a block device, as they
// are on the disk: it reads past the cache of the system. It asks only to forget the cache where
// the file system cannot read past it. What is shorter is [io.ErrUnexpectedEOF]. It ends early
// with the error of ctx.
func Reread(ctx context.Context, path string, size int64) (sum [sha256.Size]byte, err error) {
	f, err := openUncached(path)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffer, err := unix.Mmap(-1, 0, rereadSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // aligned as O_DIRECT wants it
	if err != nil {
		return sum, fmt.Errorf("reading back %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(buffer)) }()
	digest := sha256.New()
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		n, err := f.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return sum, err
		}
		at += int64(n)
		if n < len(buffer) && at < size { // the end, which no further read may ask for: it would not be aligned
			return sum, fmt.Errorf("reading back %s, %d of %d bytes: %w", path, at, size, io.ErrUnexpectedEOF)
		}
		digest.Write(buffer[:int64(n)-max(0, at-size)])
	}
	return [sha256.Size]byte(digest.Sum(nil)), nil
}

// openUncached opens a file for reading past the cache. What of it waits to be written is
// written first.
func openUncached(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0) //nolint:gosec // the caller answers for the path
	if !errors.Is(err, unix.EINVAL) {
		return f, err
	}
	if f, err = os.Open(path); err != nil { //nolint:gosec // as above
		return nil, err
	}
	if err = f.Sync(); err == nil {
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("forgetting what was cached of %s: %w", path, err), f.Close())
	}
	return f, nil
}
