package sqlite

import (
	"gatehouse/internal/board/durable"
	"gatehouse/internal/record/journal"
)

// room is how much a disk that was full must have free before it counts as sound again,
// in bytes: more than any change takes, except one that applies a whole site.
const room = 1 << 20

// reckon turns the end of a transaction into what the watcher hears: of a disk that was
// full, a success is [journal.ErrTight] until there is room.
func (db *DB) reckon(err error) error {
	switch {
	case isFull(err):
		db.tight = true
	case err == nil && db.tight && !db.probe():
		return journal.ErrTight
	}
	return err
}

// lookForRoom notifies the watcher when a disk that was full has room again.
func (db *DB) lookForRoom() {
	if db.tight && db.probe() {
		db.hearing.Lock()
		defer db.hearing.Unlock()
		db.heard(nil)
	}
}

// probe looks for room and reports whether there is.
func (db *DB) probe() bool {
	disk, err := durable.RoomAt(db.cfg.Path)
	db.tight = err == nil && disk.Free < room
	return !db.tight
}
