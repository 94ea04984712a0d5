package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

const (
	// keptAside bounds the damaged databases that are kept beside the present one. When
	// a further one comes, the oldest is removed, so that a card that fails again and
	// again is not filled by them.
	keptAside = 3
	// lostTail is how many numbers are skipped if it is unknown how many records the
	// end of a damaged journal had, so that no number is used twice.
	lostTail = 100_000

	asideMark   = ".damaged-" // before the time, in the name of a database that was set aside
	rescuedMark = ".rescued-" // the same, of one that is to take its place
	unsoundMark = ".unsound"  // the name of a file that has the next start set the database aside
)

// salvagePragmas open a damaged database to read what can be read of it. SQLite refuses
// a truncated file, or one with a damaged schema, unless the schema is declared writable.
const salvagePragmas = "vfs=unix-excl&mode=ro&_busy_timeout=2000&_dqs=0&_pragma=writable_schema(1)&_pragma=cell_size_check(1)"

// sideFiles are the suffixes of the files that make up a database, its own last.
func sideFiles() []string { return []string{"-wal", "-shm", ""} }

// rescue sets the damaged database at cfg.Path aside, whole, and puts a new one in its
// place: each table from the damaged one if it is sound there, else from the copy, else
// as far as it can be read. The records of the journal follow by [DB.CarryOver]. why is
// the damage, copied the copy or nil; the result is a sentence on what was done. A power
// cut leaves the damaged database or the new one.
func rescue(ctx context.Context, cfg Config, why error, copied *sql.DB) (story string, err error) {
	cfg.Logger.Error("the database is damaged and is set aside", "error", why)
	stamp := time.Now().UTC().Format("20060102T150405Z")
	aside := filepath.Base(cfg.Path) + asideMark + stamp
	partial := cfg.Path + ".rescue.partial"
	for _, suffix := range sideFiles() {
		if err := removeQuietly(partial + suffix); err != nil {
			return "", err
		}
	}
	r := rescuer{distrust: errors.Is(why, errDisagrees)}
	err = r.open(ctx, cfg.Path, partial, copied)
	if err == nil {
		err = r.build(ctx, aside)
	}
	if err = errors.Join(err, r.close()); err == nil {
		err = durable.Sync(partial)
	}
	if err == nil {
		err = durable.Rename(partial, cfg.Path+rescuedMark+stamp)
	}
	if err == nil {
		err = completeRescue(cfg.Path)
	}
	if copied != nil && isDamage(err) {
		return rescue(ctx, cfg, why, nil) // the copy is what cannot be used
	}
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, "The database "+cfg.Path+
			" is damaged and cannot be set aside: check free space with df and the disk with dmesg", errors.Join(why, err, removeQuietly(partial)))
	}
	return fmt.Sprintf("the database was damaged and set aside as %s; %s", aside, r.story()), nil
}

// completeRescue finishes an interrupted rescue: it puts the rescued database, if there
// is one, in the place of the damaged one.
func completeRescue(path string) error {
	found, err := siblings(path, rescuedMark)
	if err != nil || len(found) == 0 {
		return err
	}
	next := found[len(found)-1]
	aside := path + asideMark + strings.TrimPrefix(next, path+rescuedMark)
	for _, suffix := range sideFiles() {
		if err := durable.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(removeQuietly(path+unsoundMark), durable.Rename(next, path)); err != nil {
		return err
	}
	return boundAside(path)
}

// boundAside removes the oldest of the databases that were set aside.
func boundAside(path string) error {
	found, err := siblings(path, asideMark)
	found = slices.DeleteFunc(found, func(name string) bool { return !strings.HasSuffix(name, "Z") })
	for _, old := range found[:max(len(found)-keptAside, 0)] {
		for _, suffix := range sideFiles() {
			err = errors.Join(err, removeQuietly(old+suffix))
		}
	}
	return err
}

// siblings lists the files whose names begin with that of path and the mark, in order.
func siblings(path, mark string) (paths []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+mark) {
			paths = append(paths, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return paths, err
}

// rescuer builds a new database from a damaged one and its copy.
type rescuer struct {
	distrust bool    // the copy is as new as the damaged database, and they disagree
	copied   bool    // the new database began as the copy
	damaged  *sql.DB // its queries may fail
	next     *sql.DB

	fromCopy, inPart []string // tables
}

// open begins the new database at partial, with the content of the copy if there is one.
func (r *rescuer) open(ctx context.Context, path, partial string, copied *sql.DB) (err error) {
	if r.damaged, err = sql.Open("sqlite", dsn(path, salvagePragmas)); err != nil {
		return err
	}
	r.damaged.SetMaxOpenConns(1)
	if err := createPrivate(partial); err != nil {
		return err
	}
	if copied != nil {
		_, err := copied.ExecContext(ctx, "VACUUM INTO ?", partial)
		if err != nil {
			return fmt.Errorf("writing the copy back: %w", err)
		}
		r.copied = true
	}
	if r.next, err = sql.Open("sqlite", dsn(partial, buildPragmas)); err != nil {
		return err
	}
	r.next.SetMaxOpenConns(1)
	return migrate(ctx, r.next, "", schemas())
}

func (r *rescuer) close() (err error) {
	for _, db := range []*sql.DB{r.damaged, r.next} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}

// build fills the new database; aside is the new name of the damaged one.
func (r *rescuer) build(ctx context.Context, aside string) error {
	tables, err := smallTables(ctx, r.next)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := r.table(ctx, table); err != nil {
			return err
		}
	}
	if err := r.dropOrphans(ctx); err != nil {
		return err
	}
	return r.end(ctx, aside)
}

// table takes one table from the damaged database, unless the copy has it better.
func (r *rescuer) table(ctx context.Context, table string) error {
	if r.distrust && r.copied {
		r.fromCopy = append(r.fromCopy, table)
		return nil
	}
	unsound := checkPages(ctx, r.damaged, table)
	if unsound != nil && r.copied {
		r.fromCopy = append(r.fromCopy, table)
		return nil
	}
	tx, err := r.next.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM "+table) //nolint:gosec // the name is of our own schema
	if err == nil {
		unsound = errors.Join(unsound, copyRows(ctx, r.damaged, tx, table, ""))
	}
	if unsound != nil && r.copied {
		r.fromCopy = append(r.fromCopy, table)
		return tx.Rollback()
	}
	if unsound != nil {
		r.inPart = append(r.inPart, table)
		_ = copyRows(ctx, r.damaged, tx, table, " ORDER BY 1 DESC") // up to the damage from the other end
	}
	return errors.Join(err, tx.Commit())
}

// copyRows copies the rows of a table in an order, up to the first that cannot be read.
func copyRows(ctx context.Context, from queryer, to *sql.Tx, table, order string) error {
	for row, err := range each(ctx, from, scanAny, "SELECT * FROM "+table+order) {
		if err == nil {
			_, err = to.ExecContext(ctx, fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) VALUES (?%s)", //nolint:gosec // names of our own schema
				table, strings.Join(row.columns, ", "), strings.Repeat(", ?", len(row.columns)-1)), row.values...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropOrphans removes the rows that refer to what another source did not have.
func (r *rescuer) dropOrphans(ctx context.Context) error {
	var texts []string // the connection is free again after the loop
	for text, err := range each(ctx, r.next, column[string], `SELECT format('DELETE FROM "%w" WHERE "%w" NOT IN (SELECT "%w" FROM "%w")', s.name, f."from", f."to", f."table")
		FROM sqlite_schema s, pragma_foreign_key_list(s.name) f WHERE s.type = 'table'`) {
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		if _, err := r.next.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// end sets where the journal continues, the time floor, and where its records are to be
// fetched from.
func (r *rescuer) end(ctx context.Context, aside string) error {
	tail, low := r.tail(ctx)
	if _, err := r.next.ExecContext(ctx, "UPDATE journal_ends SET first = ?, anchor = ?, last = ?, hash = ?, bytes = 0",
		int64(tail.seq+1), tail.hash[:], int64(tail.seq), tail.hash[:]); err != nil { //nolint:gosec // seq fits
		return err
	}
	values := map[string]string{metaCarry: carryText(aside, low), metaSum: ""}
	saved, err := savedFloor(ctx, r.next)
	if newest, unread := r.newestSure(ctx, tail.seq); unread == nil && (err != nil || newest > saved) {
		values[metaFloor] = fmt.Sprint(newest)
	}
	for key, value := range values {
		if _, err := r.next.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, value); err != nil {
			return err
		}
	}
	return nil
}

// newestSure is that of the newest record up to last that can be read: the time floor is
// in the newest records alone, so that it would go back far without them.
func (r *rescuer) newestSure(ctx context.Context, last uint64) (int64, error) {
	newest, err := newestSure(ctx, r.damaged, last)
	if !isDamage(err) {
		return newest, err
	}
	c := carrier{aside: r.damaged}
	seq, err := pastDamage(last, func(distance uint64) (uint64, error) { return c.newest(ctx, last+1-distance) })
	if err != nil {
		return 0, err
	}
	return newestSure(ctx, r.damaged, seq)
}

// tail returns where the journal continues: after the newest record that is known of.
// low is the seq of the oldest that is kept.
func (r *rescuer) tail(ctx context.Context) (tail chain, low uint64) {
	e, err := readEnds(ctx, r.damaged)
	if err == nil {
		return e.last, e.anchor.seq + 1
	}
	if e, err = savedEnds(ctx, r.damaged); err == nil { // the newest records cannot be read
		e.last.seq += endsLag
		return e.last, e.anchor.seq + 1
	}
	if e, err = readEnds(ctx, r.next); err == nil { // of the copy
		tail = e.last
	}
	tail.seq += lostTail
	return tail, 1
}

// story returns where the tables came from, as a sentence.
func (r *rescuer) story() string {
	switch {
	case len(r.fromCopy) > 0:
		return "from the copy came: " + strings.Join(r.fromCopy, ", ")
	case len(r.inPart) > 0:
		return "there was no sound copy, and of these only a part could be read: " + strings.Join(r.inPart, ", ")
	default:
		return "accounts, sessions, stations and grants are whole"
	}
}
