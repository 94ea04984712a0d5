package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// keptAside bounds the damaged databases that are kept beside the present one. When
	// a further one comes, the oldest is removed, so that a card that fails again and
	// again is not filled by them.
	keptAside = 3
	// lostTail is how many numbers are skipped if it is unknown how many records the
	// end of a damaged journal had, so that no number is used twice.
	lostTail = 100_000
	// carryStep is how many numbers of the journal are carried over at a time.
	carryStep = 5000
	carryFor  = 5 * time.Second // the default of [Config.CarryFor]
	// carryRoom is how many bytes of the disk stay free when records are carried over.
	carryRoom = 16 << 20

	asideMark   = ".damaged-" // before the time, in the name of a database that was set aside
	rescuedMark = ".rescued"  // the name of one that is to take its place
	unsoundMark = ".unsound"  // the name of a file that has the next start set the database aside
)

// salvage is added to the driver's name of a damaged database, to read what can be read of
// it. SQLite refuses a truncated file, or one with a damaged schema, unless the schema is
// declared writable.
const salvage = "&_pragma=writable_schema(1)&_pragma=cell_size_check(1)"

// exclusive returns the driver's name for a file that this process reads, and no other
// uses.
func exclusive(path string) string {
	return dsn(path, "vfs=unix-excl&mode=ro&_busy_timeout=2000&_dqs=0")
}

// rescue sets the damaged database at cfg.Path aside, whole, and puts a new one in its
// place, with what can be read of the journal. Accounts, sessions, stations and grants
// are those of the damaged one if all of them are sound and it has not lost its newest records to
// a copy that is newer, else of the copy; without a copy they are what can be read. why is the damage, copied the copy or nil; the result
// is a sentence on what was done. A power cut leaves the damaged database or the new one.
func rescue(ctx context.Context, cfg Config, why error, copied *sql.DB) (story string, err error) {
	now := time.Now()
	r := rescuer{
		from: cfg.Path, reading: exclusive(cfg.Path), carryFor: cfg.CarryFor, aside: filepath.Base(asideName(cfg.Path, now)), copied: copied, proof: readProof(ctx, cfg.Path, copied),
	}
	err = replaceFile(cfg.Path+rescuedMark, func(partial string) error {
		r.partial = partial
		return errors.Join(r.build(ctx, cfg), os.Chtimes(partial, now, now))
	})
	if err == nil {
		err = completeRescue(cfg.Path)
	}
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, "The database "+cfg.Path+
			" is damaged and cannot be set aside: check free space with df and the disk with dmesg", errors.Join(why, err))
	}
	cfg.Logger.Error("the database was damaged and is set aside", "error", why)
	return r.story, nil
}

// asideName is the name of a database that was set aside at a time.
func asideName(path string, at time.Time) string {
	return path + asideMark + at.UTC().Format("20060102T150405Z")
}

// completeRescue puts the rescued database, if there is one, in the place of the damaged
// one, also after a power cut.
func completeRescue(path string) error {
	info, err := os.Stat(path + rescuedMark)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	aside := asideName(path, info.ModTime())
	for _, suffix := range sideFiles() {
		if err := durable.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(removeQuietly(path+unsoundMark), durable.Rename(path+rescuedMark, path)); err != nil {
		return err
	}
	return boundAside(path)
}

// boundAside removes the oldest of the databases that were set aside.
func boundAside(path string) error {
	found, err := fs.Glob(os.DirFS(filepath.Dir(path)), filepath.Base(path)+asideMark+"*Z") // in order of name
	for _, old := range found[:max(len(found)-keptAside, 0)] {
		err = errors.Join(err, removeDatabase(filepath.Join(filepath.Dir(path), old)))
	}
	return err
}

// rescuer builds a new database from a damaged one and its copy.
type rescuer struct {
	from     string        // the path of the damaged database
	carryFor time.Duration // see [Config]
	reading  string        // the driver's name of it
	aside    string        // its new name
	copied   *sql.DB
	proof    proof
	partial  string // the path of the new database; "": it is built in memory
	memory   string // the driver's name of that

	damaged *sql.DB // its queries may fail
	next    *sql.DB // has the damaged one attached under that name
	story   string
	until   time.Time // when no more records are carried over
}

// build makes the new database. The gateway itself then brings it to this
// version's schema and records what is lost, so that the result is known to open.
func (r *rescuer) build(ctx context.Context, cfg Config) error {
	lost, err := r.save(ctx, 0)
	if err := errors.Join(err, r.close()); err != nil {
		return err
	}
	partial := r.partial
	r.story = "the database was damaged and set aside as " + r.aside + "; " + r.story
	err = Files{Logger: cfg.Logger}.write(ctx, partial, func(db *DB) error {
		return db.do(ctx, nil, append(lost, site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{Detail: r.story}})...)
	})
	if err == nil && sizeOf(partial+"-wal") > 0 {
		err = errors.New("writing the rescued database: its log could not be emptied")
	}
	return errors.Join(err, removeQuietly(partial+"-wal"), removeQuietly(partial+"-shm"))
}

// save makes the new database and leaves it open. newest is how many records are carried
// over at most; 0: all. lost are the records of what is lost.
func (r *rescuer) save(ctx context.Context, newest uint64) (lost []site.Record, err error) {
	r.damaged = connect(r.reading+salvage, 1)
	defer func() { err = errors.Join(err, r.damaged.Close()) }()
	if err := r.saveTables(ctx); err != nil {
		return nil, err
	}
	return r.saveJournal(ctx, newest)
}

// close closes the new database.
func (r *rescuer) close() error {
	if r.next == nil {
		return nil
	}
	return r.next.Close()
}

// distrusts reports whether the copy is as new as the damaged database, and they disagree, or
// the copy is newer than what is left of it.
func (r *rescuer) distrusts(ctx context.Context) bool {
	if r.copied == nil {
		return false
	}
	mine, err := accessOf(ctx, r.damaged)
	copied, unread := accessOf(ctx, r.copied)
	if err != nil || unread != nil {
		return false
	}
	left, err := progressOf(ctx, r.damaged)
	return mine.contradicts(copied) || err == nil && left.behind(r.proof.copied)
}

// saveTables begins the new database with everything but the journal.
func (r *rescuer) saveTables(ctx context.Context) (err error) {
	unsound, err := r.begin(ctx, r.damaged)
	if err != nil {
		return err
	}
	// What is lost of these costs no access, as the age of the copy may.
	unsound = slices.DeleteFunc(unsound, func(table string) bool {
		return table == "station_states" || table == "login_device" || table == tableBattery
	})
	switch {
	case len(unsound) == 0 && !r.distrusts(ctx):
		r.story = "accounts, sessions, stations and grants are whole"
		if left, err := progressOf(ctx, r.damaged); err == nil && r.proof.compare(left) != nil {
			r.story = fmt.Sprintf("accounts, sessions, stations and grants are those of record %d: see what was changed after it", left.last)
		}
		return nil
	case r.copied == nil:
		r.story = "there was no sound copy, and of these only a part could be read: " + strings.Join(unsound, ", ")
		return nil
	}
	r.story = "accounts, sessions, stations and grants are those of the copy"
	if err := r.close(); err != nil {
		return err
	}
	if _, err := r.begin(ctx, r.copied); err != nil {
		return fmt.Errorf("writing the copy back: %w", err)
	}
	_, _ = copyRows(ctx, r.damaged, r.next, tableBattery, "") // as far as it can be read, and both have it
	return nil
}

// begin makes the new database, in the version of another, with what can be read of the
// small tables of that. unsound are the names of those that may not be whole.
func (r *rescuer) begin(ctx context.Context, from *sql.DB) (unsound []string, err error) {
	known := schemas()
	if version, err := schemaOf(ctx, from); err == nil && version > 0 && version < len(known) {
		known = known[:version]
	}
	if r.next, err = r.create(); err != nil {
		return nil, err
	}
	return fill(ctx, from, r.next, known)
}

// create creates the new database, empty.
func (r *rescuer) create() (*sql.DB, error) {
	if r.partial == "" {
		r.memory = "file:/" + uuid.NewString() + "?vfs=memdb&"
		return connect(r.memory+buildPragmas, 1), nil
	}
	if err := removeDatabase(r.partial); err != nil {
		return nil, err
	}
	return openBuilt(r.partial)
}

// saveJournal adds the newest records of the journal to the new database, 0: all, and
// returns the records of what is lost of it.
func (r *rescuer) saveJournal(ctx context.Context, newest uint64) (lost []site.Record, err error) {
	left, _ := progressOf(ctx, r.damaged) // the zero progress where it cannot be read
	low, high := usedNumbers(ctx, r.damaged, r.proof.newest(left))
	if newest > 0 && high >= low+newest {
		low = high - newest + 1
	}
	if err := r.carryAll(ctx, low, high); err != nil {
		return nil, err
	}
	// The hash before the first record is unknown: the first is taken on trust.
	_, err = r.next.ExecContext(ctx, `UPDATE journal_ends SET anchor = zeroblob(32), last = ?1,
		hash = coalesce((SELECT hash FROM journal WHERE seq = ?1), zeroblob(32)),
		(first, bytes) = (SELECT coalesce(min(seq), ?1 + 1), coalesce(sum(length(CAST(body AS BLOB))), 0) FROM journal)`, int64(high)) //nolint:gosec // seq fits
	if err != nil {
		return nil, err
	}
	scan := func(rows *sql.Rows) (row verifiedRow, err error) {
		err = rows.Scan(&row.seq, &row.body)
		return row, err
	}
	for row, err := range each(ctx, r.next, scan, "SELECT seq, substr(body, 1, 40) FROM journal ORDER BY seq") {
		if err != nil {
			return nil, err
		}
		seq := uint64(row.seq) //nolint:gosec // seq fits
		first := seq
		if removed, ok := firstRemoved(row.body); ok {
			first = removed
		}
		if first > low {
			lost = append(lost, loss(low, first-1, r.aside))
		}
		low = seq + 1
	}
	if low <= high {
		lost = append(lost, loss(low, high, r.aside))
	}
	return lost, nil
}

// loss returns the record of lost records of a database that was set aside.
func loss(from, to uint64, aside string) site.Record {
	return site.Record{Kind: site.KindRecordsLost, Facts: site.Facts{
		From: from, To: to, Count: int(to - from + 1), //nolint:gosec // fits for ever
		Detail: "these records were on damaged pages or in a log that is lost, or too many to be carried over; what can be read of them is in " + aside,
	}}
}

// usedNumbers returns the seq of the oldest record that a damaged journal kept, and the last
// that it may have used. known is the newest that was on the disk for certain.
func usedNumbers(ctx context.Context, q queryer, known uint64) (low, high uint64) {
	e, unread := readEnds(ctx, q)
	saved, err := savedEnds(ctx, q)
	switch {
	case unread == nil && e.last.seq >= known:
		return e.anchor.seq + 1, e.last.seq
	case unread != nil && err == nil && saved.last.seq+endsLag >= known: // the newest records cannot be read
		return saved.anchor.seq + 1, saved.last.seq + endsLag
	}
	err = q.QueryRowContext(ctx, "SELECT seq FROM journal WHERE "+isRecord+" ORDER BY seq DESC LIMIT 1").Scan(&high)
	if err != nil || high < known {
		high = max(high, known) + lostTail
	}
	_ = q.QueryRowContext(ctx, "SELECT seq FROM journal WHERE "+isRecord+" ORDER BY seq LIMIT 1").Scan(&low)
	return max(low, 1), high
}

// carryAll carries over what can be read of the journal, within [Config.CarryFor], and up to
// what leaves carryRoom on the disk.
func (r *rescuer) carryAll(ctx context.Context, low, high uint64) error {
	if r.unreadable(ctx) {
		return nil
	}
	if _, err := r.next.ExecContext(ctx, "ATTACH ? AS damaged", r.reading); err != nil {
		if isDamage(err) || r.partial == "" {
			return nil
		}
		return err
	}
	r.until = time.Now().Add(cmp.Or(r.carryFor, carryFor))
	err := r.carry(ctx, low, high)
	if errors.Is(err, errNoRoom) || isFull(err) {
		err = ctx.Err()
	}
	_, detached := r.next.ExecContext(ctx, "DETACH damaged")
	return errors.Join(err, detached)
}

// unreadable reports whether nothing of the damaged database can be read.
func (r *rescuer) unreadable(ctx context.Context) bool {
	version, err := schemaOf(ctx, r.damaged)
	return sizeOf(r.from) == 0 || r.partial == "" && (err != nil || version == 0)
}

// errNoRoom means that the disk has no room for more records.
var errNoRoom = errors.New("the disk has no room for more records")

// isRecord is what a row of a damaged page must satisfy to be a record.
const isRecord = `typeof(time) = 'integer' AND typeof(station) = 'integer' AND typeof(body) = 'text' AND length(hash) = 32
	AND length(body) <= 1048576 AND (instr(body, '{"seq":' || seq || ',') = 1 OR NOT ` + notRemoved + `)`

// carry carries over a range of the journal, the newest part first. A part that cannot be
// read is halved, until what is left out is the damage alone. No statement is interrupted: the
// driver closes its connection then, and with that a database in memory.
func (r *rescuer) carry(ctx context.Context, low, high uint64) error {
	if low > high || !time.Now().Before(r.until) {
		return ctx.Err()
	}
	done, err := r.carryAtOnce(ctx, low, high)
	if done || err != nil || low == high {
		return err
	}
	middle := low + (high-low)/2
	if err := r.carry(ctx, middle+1, high); err != nil {
		return err
	}
	return r.carry(ctx, low, middle)
}

// carryAtOnce carries over a range; false when it is too large for that, or damaged.
func (r *rescuer) carryAtOnce(ctx context.Context, low, high uint64) (done bool, err error) {
	some := false
	if high-low >= carryStep {
		err = r.next.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM damaged.journal WHERE seq BETWEEN ? AND ?)",
			int64(low), int64(high)).Scan(&some) //nolint:gosec // seq fits
	} else if disk, unknown := durable.RoomAt(r.from); r.partial != "" && (unknown != nil || disk.Free < carryRoom) {
		err = errors.Join(errNoRoom, unknown)
	} else {
		_, err = r.next.ExecContext(ctx, `INSERT OR IGNORE INTO main.journal (seq, time, station, body, hash)
			SELECT seq, time, station, body, hash FROM damaged.journal WHERE seq BETWEEN ? AND ? AND `+isRecord, int64(low), int64(high)) //nolint:gosec // seq fits
	}
	if errors.Is(err, errNoRoom) || !isDamage(err) {
		return !some, err
	}
	return false, nil
}
