package backup

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// spare is what stays free in the data directory when a backup is unpacked, in bytes.
const spare = 8 << 20

// checkRoom sees whether so many bytes fit into a folder.
func checkRoom(folder string, needed int64) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return fault.Wrap(fault.Unavailable, "The disk of "+folder+" does not say how much room it has", err)
	}
	free := int64(disk.Bavail) * int64(disk.Bsize) //nolint:gosec,unconvert // fits; the type is another one on 32 bits
	if needed += spare; free < needed {
		return fault.New(fault.Unavailable, fmt.Sprintf(
			"There is no room in %s: it needs %d MB and %d MB are free; make room there and try again", folder, needed>>20+1, free>>20))
	}
	return nil
}

// settle flushes everything under root to the disk.
func settle(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.Sync(path) // a file syncs like a folder
	})
}
