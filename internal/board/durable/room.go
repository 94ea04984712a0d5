package durable

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// spare is what stays free on a disk when a large file is written, in bytes: the journal
// grows meanwhile.
const spare = 8 << 20

// Room is the room on a disk.
type Room struct {
	Free, Total int64 // bytes; free for an ordinary user
	ReadOnly    bool
}

// RoomAt returns the room on the disk that path is on.
func RoomAt(path string) (Room, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		return Room{}, fmt.Errorf("asking for the room at %s: %w", path, err)
	}
	unit := int64(disk.Bsize)                                                                                                     //nolint:unconvert // of another type on other architectures
	return Room{Free: int64(disk.Bavail) * unit, Total: int64(disk.Blocks) * unit, ReadOnly: disk.Flags&unix.ST_RDONLY != 0}, nil //nolint:gosec // fits
}

// CheckRoom refuses to write so many bytes to a folder whose disk would be full then.
// Its error is Unavailable.
func CheckRoom(folder string, needed int64) error {
	room, err := RoomAt(folder)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The disk of "+folder+" does not say how much room it has", err)
	}
	if needed += spare; room.Free < needed {
		return fault.New(fault.Unavailable, fmt.Sprintf(
			"There is no room in %s: it needs %d MB and %d MB are free; make room there and try again", folder, needed>>20+1, room.Free>>20))
	}
	return nil
}
