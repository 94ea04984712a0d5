package durable_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/test/need"
)

func TestOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.Write(path, []byte("default a.conf\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := durable.Overwrite(path, 8, []byte("b")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it is another file: %v", err)
	}
	if got := read(t, path); got != "default b.conf\n" {
		t.Errorf("the file has %q", got)
	}
	onlyFile(t, path, 0o640)
	if err := durable.Overwrite(path+"-none", 0, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
}

// On a disk, and in memory, which some kernels cannot read past the cache of.
func TestReread(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "reread") //nolint:usetesting // in memory, wherever temporary folders are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(memory) })
	for _, folder := range []string{t.TempDir(), memory} {
		for _, size := range []int{0, 1, 511, 512, 4097, 1 << 20, 1<<20 + 1, 3<<20 + 700} {
			content := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
			path := filepath.Join(folder, "file")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, part := range []int{size, size / 2} {
				sum, err := durable.Reread(t.Context(), path, int64(part))
				if err != nil || sum != sha256.Sum256(content[:part]) {
					t.Errorf("%s: of %d of %d bytes: %x, %v", folder, part, size, sum, err)
				}
			}
			if _, err := durable.Reread(t.Context(), path, int64(size)+1); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: of more than the %d bytes that there are: %v", folder, size, err)
			}
		}
	}
	if _, err := durable.Reread(t.Context(), filepath.Join(t.TempDir(), "none"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := durable.Reread(ctx, "inplace_test.go", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// What is read past the cache is not in it afterwards.
func TestReread_pastCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Sync(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if cached(t, f) > 0 {
		need.Disk(t)
	}
	if _, err := durable.Reread(t.Context(), path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n := cached(t, f); n > 0 {
		t.Errorf("%d pages were read into the cache", n)
	}
	if _, err := os.ReadFile(path); err != nil || cached(t, f) == 0 {
		t.Errorf("an ordinary read left nothing in the cache either, %v", err)
	}
}

// cached returns how many pages of a file of 1 MiB are in the cache.
func cached(t *testing.T, f *os.File) (count int) {
	t.Helper()
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	pages := make([]byte, len(mapped)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, page := range pages {
		count += int(page & 1)
	}
	return count
}
