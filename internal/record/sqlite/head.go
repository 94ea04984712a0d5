package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"

	"gatehouse/internal/board/durable"
)

// headMark is added to the name of the database for a file with the number of the newest
// record that is on the disk. SQLite ignores the rest of its log from the first damaged frame on,
// and a log that is missing: the database is then an older one, and whole. A start
// that finds an older record at the end of the journal than this file names treats the database as
// damaged.
//
// The file is written after each transaction, and not synchronised: no door waits for it, and a
// power cut leaves a number that is a minute old at most. It is synchronised with each copy.
const headMark = ".head"

// headSize is the size of the file: the number and its checksum.
const headSize = 8 + sha256.Size

func encodeHead(seq uint64) []byte {
	content := binary.BigEndian.AppendUint64(nil, seq)
	sum := sha256.Sum256(content)
	return append(content, sum[:]...)
}

// readHead returns the number in the file that belongs to the database at path; 0 where it is
// not known.
func readHead(path string) uint64 {
	content, err := os.ReadFile(path + headMark) //nolint:gosec // the path is the administrator's
	if err != nil || len(content) != headSize {
		return 0
	}
	if seq := binary.BigEndian.Uint64(content); bytes.Equal(encodeHead(seq), content) {
		return seq
	}
	return 0
}

// saveHead writes the number of the newest record. What fails now is made up for after the
// next transaction.
func (db *DB) saveHead() {
	if db.cfg.Copy == "" {
		return
	}
	if db.head == nil {
		f, err := os.OpenFile(db.cfg.Path+headMark, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return
		}
		db.head = f
	}
	_, _ = db.head.WriteAt(encodeHead(db.tail.seq), 0)
}

// syncHead brings the file to the disk.
func (db *DB) syncHead() { _ = durable.Sync(db.cfg.Path + headMark) }

// checkHead compares the end of the journal with the newest record that was on the disk. It is
// called while the database is closed, so that its log stays as it is.
func checkHead(ctx context.Context, path string) error {
	head := readHead(path)
	if head == 0 {
		return nil
	}
	last, err := readFile(ctx, path, "The database "+path, func(db *sql.DB) (uint64, error) { return lastRecord(ctx, db) })
	if err == nil && last < head {
		return fmt.Errorf("%w: its newest record is %d, and record %d was on the disk: its log was damaged or removed", errDamagedFile, last, head)
	}
	return nil // whatever else is wrong shows when it is opened
}

// lastRecord returns the number of the newest record; 0 in a database without tables.
func lastRecord(ctx context.Context, db queryer) (uint64, error) {
	if schema, err := schemaOf(ctx, db); err != nil || schema == 0 {
		return 0, err
	}
	e, err := readEnds(ctx, db)
	return e.last.seq, err
}
