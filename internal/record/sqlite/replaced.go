package sqlite

import (
	"errors"
	"io/fs"
	"os"
)

// errReplaced means that the names of the open database are those of other files, or of none:
// what is written to the open ones is lost when they are closed.
var errReplaced = errors.New("the files of the database were removed or replaced")

// identity are the files with content that are open, by the suffixes of their names.
type identity map[string]os.FileInfo

func identify(path string) *identity {
	id := identity{}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			id[suffix] = info
		}
	}
	return &id
}

// replaced reports whether other files than the open ones, or none, have their names.
func (db *DB) replaced() bool {
	opened := db.files.Load()
	if opened == nil { // in memory
		return false
	}
	for suffix, open := range *opened {
		now, err := os.Stat(db.cfg.Path + suffix)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(open, now) {
			return true
		}
	}
	return false
}

// watchFiles has the writer write the database anew, if its files were replaced, and try again
// until it has.
func (db *DB) watchFiles() {
	if db.suspect.Load() || db.replaced() {
		db.suspect.Store(true)
		db.queue.add(&op{done: make(chan error, 1)})
	}
}

// writeAnew writes the open database to its name again, where the next [openSound] puts it in
// place. What is there meanwhile is set aside.
func (db *DB) writeAnew() error {
	return replaceFile(db.cfg.Path+rescuedMark, func(partial string) error {
		if err := createPrivate(partial); err != nil {
			return err
		}
		return db.conn.exec("VACUUM INTO ?", partial) // no other connection has the open files for certain
	})
}
