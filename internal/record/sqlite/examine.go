package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"golang.org/x/sys/unix"
	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"gatehouse/internal/fault"
)

// isDamage reports whether err means that a database file is damaged, rather than that
// its disk is full, busy or absent, or that the file may not be used.
func isDamage(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, errDamagedFile) || errors.Is(err, errDamaged) || errors.Is(err, sql.ErrNoRows) {
		return true
	}
	e, ok := errors.AsType[*sqlitedriver.Error](err)
	if !ok {
		_, isPath := errors.AsType[*fs.PathError](err)
		_, isNumber := errors.AsType[unix.Errno](err)
		_, isFault := errors.AsType[*fault.Error](err)
		return !isPath && !isNumber && !isFault
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT,
		sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
		return true
	case sqlite3.SQLITE_IOERR:
		return e.Code() == sqlite3.SQLITE_IOERR_READ || e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ
	}
	return false
}

// examined is how many of the newest records are looked at when a database is opened:
// those that a start reads.
const examined = 20_000

// examine checks whether the database can be used: the schema, every page of the small
// tables, the end of the journal, and, if the copy is as new, that both agree on who
// may open what. An error for which isDamage holds says what is wrong. Older records
// are not checked: a damaged one keeps no door shut.
func (db *DB) examine(ctx context.Context, copied *sql.DB) error {
	if err := checkSchema(ctx, db.reading); err != nil {
		return err
	}
	tables, err := smallTables(ctx, db.reading)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := checkTable(ctx, db.reading, table); err != nil {
			return err
		}
	}
	if err := checkTail(ctx, db.reading); err != nil {
		return err
	}
	if err := db.checkWritable(ctx); err != nil {
		return err
	}
	return agree(ctx, db.reading, copied)
}

// checkSchema compares the tables and indexes with those that the migrations create.
// Anything else is ignored.
func checkSchema(ctx context.Context, q queryer) error {
	mem, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }()
	mem.SetMaxOpenConns(1)
	texts, err := schemas()
	if err == nil {
		err = applyFrom(ctx, mem, texts, 0)
	}
	if err != nil {
		return err
	}
	wanted, err := schemaTexts(ctx, mem)
	if err != nil {
		return err
	}
	got, err := schemaTexts(ctx, q)
	if err != nil {
		return err
	}
	for name, text := range wanted {
		if got[name] != text {
			return fmt.Errorf("%w: the schema of %q is not what it was", errDamagedFile, name)
		}
	}
	return nil
}

// schemaTexts returns the statement that creates each table and index, by name.
func schemaTexts(ctx context.Context, q queryer) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, "SELECT name, type || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	texts := make(map[string]string)
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, rows.Err()
}

// checkTable checks every page of a table and of its indexes, and its foreign keys.
func checkTable(ctx context.Context, q queryer, table string) error {
	var verdict string
	if err := q.QueryRowContext(ctx, "PRAGMA integrity_check("+table+")").Scan(&verdict); err != nil {
		return fmt.Errorf("checking %s: %w", table, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("checking %s: %w: %s", table, errDamagedFile, verdict)
	}
	rows, err := q.QueryContext(ctx, "PRAGMA foreign_key_check("+table+")")
	if err != nil {
		return fmt.Errorf("checking %s: %w", table, err)
	}
	defer func() { _ = rows.Close() }()
	if rows.Next() {
		return fmt.Errorf("checking %s: %w: it refers to what is not there", table, errDamagedFile)
	}
	return rows.Err()
}

// checkTail reads the newest records as far as a start needs them, and checks that the
// next one can follow them.
func checkTail(ctx context.Context, q queryer) error {
	e, err := readEnds(ctx, q)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamagedFile, err)
	}
	if err := checkLag(ctx, q, e); err != nil {
		return err
	}
	var size sql.NullInt64
	return q.QueryRowContext(ctx, "SELECT sum(length(hash)) FROM (SELECT hash FROM journal ORDER BY seq DESC LIMIT ?)", examined).Scan(&size)
}

// checkLag checks that the records after the saved end follow it.
func checkLag(ctx context.Context, q queryer, e ends) error {
	if e.last.seq-e.saved.seq >= endsLag {
		return fmt.Errorf("%w: the journal continues after its end", errDamagedFile)
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, body, hash FROM journal WHERE seq > ? ORDER BY seq", int64(e.saved.seq)) //nolint:gosec // seq fits
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	at := e.saved
	for rows.Next() {
		var seq uint64
		var body, hash sql.RawBytes
		if err := rows.Scan(&seq, &body, &hash); err != nil {
			return err
		}
		if at = at.next(body); seq != at.seq || !bytes.Equal(hash, at.hash[:]) {
			return fmt.Errorf("%w: record %d does not follow the one before", errDamagedFile, seq)
		}
	}
	return rows.Err()
}

// errProbe undoes the record that checkWritable writes.
var errProbe = fault.New(fault.Conflict, "this was to be tried alone")

// usualRecord is about the size of a record, in bytes.
const usualRecord = 500

// checkWritable finds what keeps the next record from being written: damage of the pages
// that it touches, and a header by which SQLite takes the file for one that must not be
// written to, on a disk that can be. It leaves nothing behind.
func (db *DB) checkWritable(ctx context.Context) error {
	err := db.do(ctx, func(t *transaction) error {
		e, err := readEnds(ctx, t.conn)
		if err == nil {
			_, err = t.exec("INSERT INTO journal (seq, time, station, body, hash) VALUES (?, 0, 0, ?, ?)",
				int64(e.last.seq+1), strings.Repeat(" ", usualRecord), e.last.hash[:]) //nolint:gosec // seq fits
		}
		return errors.Join(err, errProbe)
	})
	if errors.Is(err, errProbe) && !isDamage(err) {
		return nil
	}
	if isDamage(err) {
		return err
	}
	var disk unix.Statfs_t
	e, ok := errors.AsType[*sqlitedriver.Error](err)
	if ok && e.Code()&0xff == sqlite3.SQLITE_READONLY && unix.Access(db.path, unix.W_OK) == nil &&
		unix.Statfs(db.path, &disk) == nil && disk.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("%w: %w", errDamagedFile, err)
	}
	return nil
}

// agree compares who may open what with the copy, if the copy is as new.
func agree(ctx context.Context, q queryer, copied *sql.DB) error {
	if copied == nil {
		return nil
	}
	mine, err := accessOf(ctx, q)
	if err != nil {
		return err
	}
	theirs, err := accessOf(ctx, copied)
	if err != nil {
		return nil //nolint:nilerr // the copy is of no use
	}
	if mine.schema == theirs.schema && mine.version == theirs.version && mine.sum != theirs.sum {
		return fmt.Errorf("%w: %w", errDamagedFile, errDisagrees)
	}
	return nil
}

// errDisagrees says that a database and its copy are equally new and not the same.
var errDisagrees = errors.New("who may open what is not what the copy says")

// accessState is who may open what, as the schema, the mark of the last change, and a
// digest.
type accessState struct {
	schema  int
	version string
	sum     [sha256.Size]byte
}

// accessOf reads it. Tables that change without a change of access are left out.
func accessOf(ctx context.Context, q queryer) (a accessState, err error) {
	if a.schema, err = schemaOf(ctx, q); err != nil {
		return a, err
	}
	err = q.QueryRowContext(ctx, "SELECT coalesce(max(value), '') FROM meta WHERE key = ?", metaVersion).Scan(&a.version)
	if err != nil {
		return a, err
	}
	h := sha256.New()
	for _, text := range []string{
		"SELECT key, value FROM meta WHERE key IN ('" + metaGateway + "', '" + metaTimeZone + "') ORDER BY key",
		"SELECT * FROM account ORDER BY id", "SELECT * FROM session ORDER BY id",
		"SELECT * FROM station ORDER BY id", "SELECT * FROM access_grant ORDER BY account, station",
	} {
		err := eachRow(ctx, q, text, func(values []any) error {
			_, err := fmt.Fprintf(h, "%T %#v\n", values, values)
			return err
		})
		if err != nil {
			return a, err
		}
	}
	h.Sum(a.sum[:0])
	return a, nil
}

// eachRow calls use with the values of each row; use must not keep them.
func eachRow(ctx context.Context, q queryer, text string, use func(values []any) error) error {
	rows, err := q.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := use(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// columnsOf lists the columns that a table has in both databases.
func columnsOf(ctx context.Context, table string, a, b queryer) ([]string, error) {
	var known [2]map[string]bool
	for i, q := range []queryer{a, b} {
		known[i] = make(map[string]bool)
		err := eachRow(ctx, q, "SELECT name FROM pragma_table_info('"+table+"')", func(values []any) error {
			if name, ok := values[0].(string); ok {
				known[i][name] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(known[0], func(name string, _ bool) bool { return !known[1][name] })
	if len(known[0]) == 0 {
		return nil, fmt.Errorf("%w: there is no table %s", errDamagedFile, strings.ToLower(table))
	}
	var names []string
	for name := range known[0] {
		names = append(names, name)
	}
	return names, nil
}
