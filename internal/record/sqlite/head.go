package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"gatehouse/internal/board/durable"
)

// headMark is added to the name of the database for a file with the number of the newest
// record that is on the disk. SQLite ignores its log from the first damaged frame on, all of one
// whose header is damaged, and one that is missing: the database is then an older one, and whole.
//
// The file is written beside the writer, headEvery at most after a record, and not synchronised:
// no door waits for it. After a power cut its number may be older by a minute. It is
// synchronised with each copy.
const headMark = ".head"

// headEvery is how often the head is written while there are new records.
const headEvery = time.Second

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

// keepHead writes the head and looks at the files of the database while there are new records,
// until the database is closed.
func (db *DB) keepHead() {
	ticker := time.NewTicker(headEvery)
	defer ticker.Stop()
	var saved uint64
	for open := true; open; {
		select {
		case <-ticker.C:
		case <-db.stopped:
			open = false
		}
		now := db.Latest()
		if now == saved || db.files.Load() == nil { // what is in memory alone is not on the disk
			continue
		}
		db.watchFiles()
		if saveHead(db.cfg.Path, now) == nil {
			saved = now
		}
	}
}

// saveHead writes over the file in its place, so that a full disk takes it.
func saveHead(path string, seq uint64) error {
	f, err := os.OpenFile(path+headMark, os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the path is the administrator's
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodeHead(seq), 0)
	return errors.Join(err, f.Close())
}

// syncHead brings the file to the disk.
func (db *DB) syncHead() { _ = durable.Sync(db.cfg.Path + headMark) }

// progress is how far a database has come. The zero progress is that of a new one.
type progress struct {
	gateway string // the id of its gateway
	restore string // another text for each restore; see [Files.Renew]
	last    uint64 // the number of its newest record
}

// progressOf reads the progress of a database file.
func progressOf(ctx context.Context, q queryer) (p progress, err error) {
	if schema, err := schemaOf(ctx, q); err != nil || schema == 0 {
		return p, err
	}
	e, err := readEnds(ctx, q)
	if err != nil {
		return p, err
	}
	p.last = e.last.seq
	if p.gateway, err = readMeta(ctx, q, metaGateway); err == nil {
		p.restore, err = readMeta(ctx, q, metaRestore)
	}
	return p, err
}

// behind reports whether a database has fewer records than its copy. The copy of another gateway,
// and that of before a restore, show nothing.
func (p progress) behind(copied progress) bool {
	return p.last < copied.last && (p.gateway == "" || p.gateway == copied.gateway) && (p.restore == "" || p.restore == copied.restore)
}

// proof shows which records were on the disk: the head, and the copy.
type proof struct {
	head   uint64
	copied progress
}

// readProof reads the proof for the database at path; copied is its copy or nil.
func readProof(ctx context.Context, path string, copied *sql.DB) proof {
	p := proof{head: readHead(path)}
	if copied != nil {
		p.copied, _ = progressOf(ctx, copied) // which was checked
	}
	return p
}

// newest returns the number of the newest record of a database that was on the disk for certain.
func (p proof) newest(now progress) uint64 {
	newest := max(now.last, p.head)
	if now.behind(p.copied) {
		newest = max(newest, p.copied.last)
	}
	return newest
}

// compare returns an error if a database ends before a record that was on the disk.
func (p proof) compare(now progress) error {
	if newest := p.newest(now); now.last < newest {
		return fmt.Errorf("%w: its newest record is %d, and record %d was on the disk: its log was damaged or removed, or it is an older file", errDamagedFile, now.last, newest)
	}
	return nil
}

// check is compare of the database file at path as the writer would open it. It is called while
// the file is closed, so that its log stays as it is.
func (p proof) check(ctx context.Context, path string) error {
	now, err := readFile(ctx, path, "The database "+path, func(db *sql.DB) (progress, error) { return progressOf(ctx, db) })
	if err != nil {
		return nil //nolint:nilerr // it shows when the file is opened
	}
	return p.compare(now)
}
