package durable

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// spare is what stays free on a disk when a large file is written, in bytes: the journal
// grows meanwhile.
const spare = 8 << 20

// Free returns how many bytes a user who is not root may still write to the disk of a
// folder.
func Free(folder string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return 0, fmt.Errorf("asking the disk of %s for its room: %w", folder, err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // fits; the type is another one on 32 bits
}

// CheckRoom refuses to write so many bytes to a folder whose disk would be full then.
// Its error is Unavailable.
func CheckRoom(folder string, needed int64) error {
	free, err := Free(folder)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The disk of "+folder+" does not say how much room it has", err)
	}
	if needed += spare; free < needed {
		return fault.New(fault.Unavailable, fmt.Sprintf(
			"There is no room in %s: it needs %d MB and %d MB are free; make room there and try again", folder, needed>>20+1, free>>20))
	}
	return nil
}
