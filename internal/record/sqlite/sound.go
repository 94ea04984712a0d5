package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// openSound opens a usable database: a damaged one is set aside and replaced first.
func openSound(ctx context.Context, cfg Config) (db *DB, err error) {
	if err := errors.Join(completeRescue(cfg.Path), completeTakeBack(cfg.Path)); err != nil {
		return nil, fmt.Errorf("putting the database in place: %w", err)
	}
	if err := createPrivate(cfg.Path); err != nil { // no damage can be repaired there
		return nil, err
	}
	copied, access, unread := readCopy(ctx, cfg.Copy)
	if unread == nil {
		defer func() { _ = copied.Close() }()
	}
	known := readProof(ctx, cfg.Path, copied)
	why, story := errNoted, ""
	if !exists(cfg.Path + unsoundMark) {
		db, why = tryOpen(ctx, cfg, known, access)
	}
	if isDamage(why) {
		if story, why = rescue(ctx, cfg, why, copied); why == nil {
			db, why = open(ctx, cfg)
		}
	}
	if why != nil {
		return nil, why
	}
	if story != "" {
		db.noteRescue(story)
	}
	if unread != nil && !errors.Is(unread, os.ErrNotExist) {
		db.log.Warn("the copy of the database cannot be read and is written again", "error", unread)
	}
	if mine, err := accessOf(ctx, db.reader()); err != nil || mine != access {
		db.copyAgain(true)
	} else if has, err := revoked(ctx, db.reader()); err == nil {
		db.copyHas.Store(has)
	}
	return db, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// errNoted means that the last run found a page that cannot be read.
var errNoted = fmt.Errorf("%w: a page could not be read in the last run", errDamagedFile)

// tryOpen opens the database and checks whether it can be used. An error for which
// isDamage holds means that it is damaged.
func tryOpen(ctx context.Context, cfg Config, known proof, copied accessState) (*DB, error) {
	if err := known.check(ctx, cfg.Path); err != nil {
		return nil, err
	}
	db, err := open(ctx, cfg)
	if fault.Is(err, fault.Conflict) && hasOurSchema(ctx, cfg.Path) {
		return nil, fmt.Errorf("%w: its version is not what it was", errDamagedFile)
	}
	if err != nil {
		return nil, err
	}
	problem := db.examine(ctx, known, copied)
	if isDamage(problem) || codeOf(problem) == sqlite3.SQLITE_READONLY {
		err := errors.Join(problem, db.discard())
		if hasReadOnlyHeader(cfg.Path) {
			err = fmt.Errorf("%w: its header: %w", errDamagedFile, err)
		}
		return nil, err
	}
	return db, nil
}

// hasReadOnlyHeader reports whether SQLite writes to no file with this header. It is called
// while the file is closed: closing it again would release the locks of the process.
func hasReadOnlyHeader(path string) bool {
	const writeVersion = 18 // https://www.sqlite.org/fileformat.html
	var header [writeVersion + 1]byte
	f, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return false
	}
	_, err = io.ReadFull(f, header[:])
	_ = f.Close() // it was only read
	return err == nil && header[writeVersion] > 2
}

// hasOurSchema reports whether a file that claims a newer version has exactly the schema
// of this one.
func hasOurSchema(ctx context.Context, path string) bool {
	db := connect(dsn(path, readerPragmas), 1)
	defer func() { _ = db.Close() }()
	foreign, missing, err := compareSchema(ctx, db, schemas())
	return err == nil && len(foreign)+len(missing) == 0
}

// noteDamage notes a page that cannot be read, so that the next start sets the database
// aside and carries over what can be read.
func (db *DB) noteDamage(err error) {
	db.unsound.Do(func() {
		db.log.Error("a page of the database is damaged; the next start sets it aside", "error", err)
		if db.cfg.Copy != "" {
			if err := durable.Write(db.cfg.Path+unsoundMark, nil, 0o600); err != nil {
				db.log.Error("the damage cannot be noted for the next start", "error", err)
			}
		}
		if db.cfg.Damaged != nil {
			db.cfg.Damaged(err)
		}
	})
}

// examined is how many of the newest records are looked at when a database is opened:
// those that a start reads.
const examined = 20_000

// examine checks whether the database can be used: the schema, every page of the small
// tables, the end of the journal, also where the file could not be read before it was opened,
// and, if the copy is as new, that both agree on who may open what. An error for which isDamage holds names what is wrong. Older records
// are not checked: a damaged one keeps no door shut.
func (db *DB) examine(ctx context.Context, known proof, copied accessState) error {
	_, missing, err := foreignObjects(ctx, db.reader())
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: there is no %s as it was", errDamagedFile, missing[0])
	}
	if err != nil {
		return err
	}
	now, err := progressOf(ctx, db.reader())
	if err == nil {
		err = known.compare(now)
	}
	if err != nil {
		return err
	}
	tables, err := smallTables(ctx, db.reader())
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := checkPages(ctx, db.reader(), table); err != nil {
			return err
		}
	}
	var lacking sql.NullString
	var size sql.NullInt64
	err = db.reader().QueryRowContext(ctx, `SELECT (SELECT max("table") FROM pragma_foreign_key_check),
		(SELECT sum(length(hash)) FROM (SELECT hash FROM journal ORDER BY seq DESC LIMIT ?))`, examined).Scan(&lacking, &size)
	if err == nil && lacking.Valid {
		err = fmt.Errorf("%w: table %s refers to what is not there", errDamagedFile, lacking.String)
	}
	if err != nil {
		return err
	}
	if err := db.checkWritable(ctx); err != nil {
		return err
	}
	mine, err := accessOf(ctx, db.reader())
	if err == nil && mine.contradicts(copied) {
		err = fmt.Errorf("%w: it and its copy differ in who may open what", errDamagedFile)
	}
	return err
}

// checkPages checks every page of a table and of its indexes.
func checkPages(ctx context.Context, q queryer, table string) error {
	return pragmaCheck(ctx, q, "integrity_check("+table+")")
}

// checkWritable finds damage of the pages that the next record touches, and a file that
// SQLite does not write to. It leaves nothing behind.
func (db *DB) checkWritable(ctx context.Context) error {
	_, err := db.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err != nil {
		return err
	}
	e, err := readEnds(ctx, db.conn)
	if err == nil {
		_, err = db.conn.ExecContext(ctx, "INSERT INTO journal (seq, time, station, body, hash) VALUES (?, 0, 0, hex(zeroblob(250)), ?)",
			int64(e.last.seq+1), e.last.hash[:]) //nolint:gosec // seq fits
	}
	_, undone := db.conn.ExecContext(ctx, "ROLLBACK")
	return errors.Join(err, undone)
}
