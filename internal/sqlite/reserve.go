package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// The room that is kept for starting on a full disk, in bytes: enough for SQLite's
// log and its index, or what there is.
const (
	mostReserve  = 4 << 20
	leastReserve = 256 << 10
)

// reservePath names the file that keeps the room.
func reservePath(path string) string { return path + ".reserve" }

// keepReserve takes room on the disk for the next start, if none is kept yet. A
// running gateway needs no room to open doors, but opening the database does; so a
// board whose disk is full would not come back from a power cut.
func keepReserve(path string, log *slog.Logger) {
	if _, err := os.Stat(reservePath(path)); err == nil {
		return
	}
	var err error
	for size := int64(mostReserve); size >= leastReserve; size /= 2 {
		if err = allocate(reservePath(path), size); err == nil {
			return
		}
	}
	log.Warn("no room is kept for starting on a full disk", "error", err)
}

func allocate(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the path is the administrator's
	if err != nil {
		return fmt.Errorf("keeping room: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	return unix.Fallocate(int(f.Fd()), 0, 0, size)
}

// giveReserve gives the kept room back to the disk; false when none was kept.
func giveReserve(path string, log *slog.Logger) bool {
	err := os.Remove(reservePath(path))
	if err == nil {
		log.Warn("the disk is full; the room that was kept for this start is used")
	} else if !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the room that was kept for a full disk was not given back", "error", err)
	}
	return err == nil
}
