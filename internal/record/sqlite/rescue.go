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
	// keptAside bounds the damaged databases that stand beside the present one: when a
	// further one comes, the oldest is removed, so that a card that fails again and again
	// is not filled by them.
	keptAside = 3
	// lostTail is how many numbers are skipped if it is unknown how many records the
	// end of a damaged journal had, so that no number is used twice.
	lostTail = 100_000

	asideMark   = ".damaged-" // before the time, in the name of a database that was set aside
	rescuedMark = ".rescued-" // the same, of one that is to take its place
	unsoundMark = ".unsound"  // the name of a file that has the next start set the database aside
)

// rescue sets the damaged database at cfg.Path aside, whole, and puts a new one in its
// place: each table from the damaged one if it is sound there, else from the copy, else
// as far as it can be read. The records of the journal follow by [DB.carry]. why is the
// damage; the result is a sentence on what was done. A power cut leaves the damaged
// database or the new one.
func rescue(ctx context.Context, cfg Config, why error) (story string, err error) {
	cfg.Logger.Error("the database is damaged and is set aside", "error", why)
	stamp := time.Now().UTC().Format("20060102T150405Z")
	partial := cfg.Path + ".rescue.partial"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := removeQuietly(partial + suffix); err != nil {
			return "", err
		}
	}
	r := rescuer{path: cfg.Path, distrust: errors.Is(why, errDisagrees)}
	if err := r.open(ctx, cfg.Copy, partial); err != nil {
		return "", errors.Join(err, r.close())
	}
	err = r.build(ctx, filepath.Base(cfg.Path)+asideMark+stamp)
	if err = errors.Join(err, r.close()); err == nil {
		err = durable.Sync(partial)
	}
	if err == nil {
		err = durable.Rename(partial, cfg.Path+rescuedMark+stamp)
	}
	if err == nil {
		err = completeRescue(cfg.Path)
	}
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, "The database "+cfg.Path+
			" is damaged and cannot be set aside: check free space with df and the disk with dmesg", errors.Join(why, err))
	}
	return fmt.Sprintf("the database was damaged and set aside as %s; %s", filepath.Base(cfg.Path)+asideMark+stamp, r.story()), nil
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
	for _, suffix := range []string{"-wal", "-shm", ""} {
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
	found = slices.DeleteFunc(found, func(name string) bool { return strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-shm") })
	if err != nil || len(found) <= keptAside {
		return err
	}
	for _, old := range found[:len(found)-keptAside] {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := removeQuietly(old + suffix); err != nil {
				return err
			}
		}
	}
	return nil
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
	path     string
	distrust bool    // the copy is as new as the damaged database, and says otherwise
	damaged  *sql.DB // never nil; its queries may fail
	copied   *sql.DB // nil: there is none
	next     *sql.DB

	fromCopy, inPart []string // tables
}

func (r *rescuer) open(ctx context.Context, copied, partial string) (err error) {
	if r.damaged, err = sql.Open("sqlite", dsn(r.path, "mode=ro&_busy_timeout=2000&_dqs=0")); err != nil {
		return err
	}
	r.damaged.SetMaxOpenConns(1)
	if r.copied, err = readCopy(ctx, copied); err == nil {
		err = bringForward(ctx, r.copied)
	}
	if err != nil {
		r.copied = nil
	}
	if r.next, err = sql.Open("sqlite", dsn(partial, "_pragma=journal_mode(off)&_pragma=synchronous(off)&_dqs=0")); err != nil {
		return err
	}
	r.next.SetMaxOpenConns(1)
	if err := createPrivate(partial); err != nil {
		return err
	}
	texts, err := schemas()
	if err != nil {
		return err
	}
	return applyFrom(ctx, r.next, texts, 0)
}

func (r *rescuer) close() (err error) {
	for _, db := range []*sql.DB{r.damaged, r.copied, r.next} {
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
	for _, table := range tables {
		if err := r.dropOrphans(ctx, table); err != nil {
			return err
		}
	}
	return r.end(ctx, aside)
}

// table fills one table from the best source there is.
func (r *rescuer) table(ctx context.Context, table string) error {
	if !r.distrust || r.copied == nil {
		err := checkPages(ctx, r.damaged, table)
		if err == nil {
			err = r.take(ctx, r.damaged, table, "")
		}
		if err == nil {
			return nil
		}
	}
	if r.copied != nil {
		r.fromCopy = append(r.fromCopy, table)
		return r.take(ctx, r.copied, table, "")
	}
	r.inPart = append(r.inPart, table)
	for _, order := range []string{"", " ORDER BY 1 DESC"} { // up to the damage from both sides
		_ = r.take(ctx, r.damaged, table, order)
	}
	return nil
}

// checkPages is checkTable without what the table refers to, which may be damaged.
func checkPages(ctx context.Context, q queryer, table string) error {
	var verdict string
	if err := q.QueryRowContext(ctx, "PRAGMA integrity_check("+table+")").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return errDamagedFile
	}
	return nil
}

// take copies the rows of a table.
func (r *rescuer) take(ctx context.Context, from *sql.DB, table, order string) error {
	columns, err := columnsOf(ctx, table, r.next, from)
	if err != nil {
		return err
	}
	list := strings.Join(columns, ", ")
	insert := fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) VALUES (?%s)", table, list, strings.Repeat(", ?", len(columns)-1)) //nolint:gosec // names of our own schema
	return eachRow(ctx, from, "SELECT "+list+" FROM "+table+order, func(values []any) error {
		_, err := r.next.ExecContext(ctx, insert, values...)
		return err
	})
}

// dropOrphans removes the rows of a table that refer to what another source did not
// have.
func (r *rescuer) dropOrphans(ctx context.Context, table string) error {
	type reference struct{ parent, from, to string }
	var all []reference
	err := eachRow(ctx, r.next, `SELECT "table", "from", "to" FROM pragma_foreign_key_list('`+table+"')", func(values []any) error {
		all = append(all, reference{fmt.Sprint(values[0]), fmt.Sprint(values[1]), fmt.Sprint(values[2])})
		return nil
	})
	for _, ref := range all {
		if err != nil {
			return err
		}
		_, err = r.next.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE NOT EXISTS (SELECT 1 FROM %s p WHERE p.%s = %s.%s)",
			table, ref.parent, ref.to, table, ref.from))
	}
	return err
}

// end sets where the journal continues, the time floor, and where its records are to be
// fetched from.
func (r *rescuer) end(ctx context.Context, aside string) error {
	newest, first := r.newest(ctx)
	tail, low := r.tail(ctx, newest, first)
	if _, err := r.next.ExecContext(ctx, "UPDATE journal_ends SET first = ?, anchor = ?, last = ?, hash = ?, bytes = 0",
		int64(tail.seq+1), tail.hash[:], int64(tail.seq), tail.hash[:]); err != nil { //nolint:gosec // seq fits
		return err
	}
	values := map[string]string{metaCarry: carryText(aside, max(low, 1))}
	saved, err := savedFloor(ctx, r.next)
	if sure := sureOf(newest); err != nil || sure > saved {
		values[metaFloor] = fmt.Sprint(sure)
	}
	for key, value := range values {
		if _, err := r.next.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, value); err != nil {
			return err
		}
	}
	return nil
}

// tail returns where the journal continues: after the newest record that is known of.
// low is the seq of the oldest that is kept.
func (r *rescuer) tail(ctx context.Context, newest row, first uint64) (tail chain, low uint64) {
	tail = chain{seq: uint64(newest.seq), hash: newest.hash} //nolint:gosec // a seq
	e, err := readEnds(ctx, r.damaged)
	if err != nil { // the page of the newest record, perhaps
		e, err = savedEnds(ctx, r.damaged)
		e.last.seq += endsLag
	}
	if err == nil && e.last.seq >= tail.seq {
		if e.last.seq > tail.seq {
			tail = e.last
		}
		return tail, e.anchor.seq + 1
	}
	if r.copied != nil {
		if e, err := readEnds(ctx, r.copied); err == nil && e.last.seq > tail.seq {
			tail = e.last
		}
	}
	tail.seq += lostTail
	return tail, first
}

// newest finds the newest record that can be read, and the seq of the oldest.
func (r *rescuer) newest(ctx context.Context) (newest row, first uint64) {
	p, err := openPages(r.path)
	if err != nil {
		return row{}, 0
	}
	defer func() { _ = p.close() }()
	for _, l := range p.leaves(ctx) {
		if first == 0 || l.first < first {
			first = l.first
		}
		if newest.seq != 0 {
			continue
		}
		for _, one := range p.rows(l) {
			if one.seq > newest.seq {
				newest = one
			}
		}
	}
	return newest, first
}

// sureOf returns the time of a record that a trusted clock stamped, else 0.
func sureOf(newest row) int64 {
	if r, err := decode([]byte(newest.body)); err == nil && r.ClockTrusted {
		return newest.time
	}
	return 0
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
