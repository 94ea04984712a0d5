package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	workMark  = ".work"  // after the name of a copy that becomes the database again
	olderMark = ".older" // the name of one that is to take the place of the newer database
	newerMark = ".newer" // the name of the newer database after that
	// namedChanges bounds how many changes are named.
	namedChanges = 20
)

// workPragmas open the copy for one transaction, after which all of it is in the one file.
const workPragmas = "vfs=unix-excl&_busy_timeout=2000&_dqs=0&_foreign_keys=on&_pragma=journal_mode(delete)&_pragma=synchronous(full)&_pragma=cache_size(-1024)"

// TakeBack puts the copy that a newer version has kept before it changed the schema in the
// place of the newer database at cfg.Path, which is kept beside it. It carries over the
// records that the newer version has written, as they are, and what these revoked; see
// [DB.TakenBack]. Nothing else of the newer database is used: its tables may have another
// meaning. Where the database is of this version's schema, it does nothing.
//
// Of a newer database that is damaged it carries over the records up to the fault, and
// revokes what the rest that can be read revokes; what is lost has its record. One that
// cannot be opened at all counts as newer where there is such a copy, and cfg.Copy is not
// of this version either.
//
// A version that returns may find its own database beside that of the other, as a newer one
// does after a rollback that has failed: it takes that back in the same way, so that what was
// set in it is not lost. If a newer version cannot, it goes on with the older database.
//
// After an error the newer database is in its place, unchanged. So it is after a power
// cut, or the older one is, whole; then [Open] or another call completes it. It needs
// room on the disk for the records that it carries over alone.
//
// Errors: Conflict where there is no copy; Invalid where the copy is damaged; Unavailable.
func TakeBack(ctx context.Context, cfg Config) error {
	if err := errors.Join(completeRescue(cfg.Path), completeTakeBack(cfg.Path)); err != nil {
		return fmt.Errorf("putting the database in place: %w", err)
	}
	if exists(cfg.Path + "-journal") { // Open was cut off when it changed how the file is written
		if err := oneFile(ctx, cfg.Path); err != nil && !isDamage(err) {
			return err
		}
	}
	known := len(schemas())
	name := "The newer database " + cfg.Path
	schema, err := readFile(ctx, cfg.Path, name, func(db *sql.DB) (int, error) { return schemaOf(ctx, db) })
	former := copyName(cfg.Path, known)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	returns := err == nil && schema < known && claimOwn(ctx, cfg, known)
	if schema <= known && !returns && !(unopenable(schema, err) && (exists(former) || exists(former+workMark)) && !hasCopy(ctx, cfg)) {
		return nil // Open decides what is wrong with it
	}
	cfg.Logger.Warn("the database is of another version whose trial has ended; that of before is taken back", "schema", schema, "known", known)
	if !exists(former) {
		claimOwn(ctx, cfg, known)
	}
	if err := takeBack(ctx, cfg, known, name, schema); err != nil && (!returns || ctx.Err() != nil || isBusy(err)) {
		return err
	} else if err != nil {
		cfg.Logger.Error("the database of before the rollback cannot be taken back: that of the rollback stays", "kept", former, "error", err)
	}
	return completeTakeBack(cfg.Path)
}

// claimOwn makes the database of this version that another has put aside the one that is
// taken back, and reports whether there is one, also of an interrupted call.
func claimOwn(ctx context.Context, cfg Config, known int) bool {
	former, aside := copyName(cfg.Path, known), cfg.Path+newerMark
	schema, err := readFile(ctx, aside, "The database "+aside, func(db *sql.DB) (int, error) { return schemaOf(ctx, db) })
	if err != nil || schema != known {
		return exists(former + workMark)
	}
	// What stands there under those names belongs to a former trial.
	err = errors.Join(oneFile(ctx, aside), removeDatabase(former), removeDatabase(former+workMark))
	if err == nil {
		err = durable.Rename(aside, former+workMark)
	}
	if err != nil {
		cfg.Logger.Error("this version's own database cannot be taken back", "file", aside, "error", err)
	}
	return err == nil
}

// oneFile brings what is in the files beside a database into it.
func oneFile(ctx context.Context, path string) error {
	db := connect(dsn(path, workPragmas), 1)
	_, err := schemaOf(ctx, db)
	return errors.Join(err, db.Close())
}

// takeBack makes of the copy of the known schema the database that is to take the place of
// the one at cfg.Path, which has another schema; name is that one's in messages.
func takeBack(ctx context.Context, cfg Config, known int, name string, schema int) error {
	former := copyName(cfg.Path, known)
	if err := removeDatabase(cfg.Path + newerMark); err != nil { // its room may be needed
		return err
	}
	work, err := claimCopy(former, cfg.Path)
	if err != nil {
		return err
	}
	for _, state := range []condition{whole, damaged, unattachable} { // a failed try has changed nothing
		t := taking{cfg: cfg, newer: state, taken: site.TakenBack{Schema: schema}}
		if err = t.from(ctx, work, known, name); err == nil || ctx.Err() != nil || isBusy(err) || isFull(err) {
			break
		}
		cfg.Logger.Error("the database of before the newer version cannot be taken back in this way", "newer", state.String(), "error", err)
	}
	if fault.Is(err, fault.Unavailable) && !isBusy(err) {
		err = fault.Wrap(fault.Unavailable, "The database of before the newer version cannot be taken back: check free space with df and the disk with dmesg", err)
	}
	if err == nil {
		err = durable.Sync(work)
	}
	if err != nil {
		// An interrupted call is continued. What a failing disk has left belongs to this name.
		if ctx.Err() == nil && !exists(work+"-journal") {
			err = errors.Join(err, durable.Rename(work, former))
		}
		return fmt.Errorf("taking back the database of before the newer version: %w", err)
	}
	return durable.Rename(work, cfg.Path+olderMark)
}

// unopenable reports whether a schema and the error of reading it are those of a file that
// is not there, or that this process may use and cannot.
func unopenable(schema int, err error) bool {
	return schema == 0 && !isBusy(err) && !fault.Is(err, fault.Forbidden)
}

// hasCopy reports whether there is a copy of who may open what that this version wrote: the
// newer version replaces it when it starts.
func hasCopy(ctx context.Context, cfg Config) bool {
	copied, _, err := readCopy(ctx, cfg.Copy)
	if err == nil {
		_ = copied.Close()
	}
	return err == nil
}

// claimCopy renames the copy that is to be changed, so that an interrupted change is not
// taken for a copy. It returns the new name, under which a former call may have left it.
func claimCopy(former, path string) (work string, err error) {
	work = former + workMark
	if exists(former) {
		// What an abandoned call left belongs to a former trial.
		if err := removeDatabase(work); err != nil {
			return "", err
		}
		return work, durable.Rename(former, work)
	}
	if !exists(work) {
		return "", fault.New(fault.Conflict, fmt.Sprintf(
			"The database %s is of a newer version of gatehouse, and there is no copy %s of before it: install the newer version again, or restore a backup; nothing was changed", path, former))
	}
	return work, nil
}

// completeTakeBack puts the older database, if there is one, in the place of the newer,
// also after a power cut.
func completeTakeBack(path string) error {
	if !exists(path + olderMark) {
		return nil
	}
	for _, suffix := range sideFiles() {
		if err := durable.Rename(path+suffix, path+newerMark+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return errors.Join(removeQuietly(path+unsoundMark), durable.Rename(path+olderMark, path))
}

// TakenBack returns what the last [TakeBack] has undone; false where there was none, or the
// newer database is not beside this one any more: it is not missed, or the newer version
// is in use again.
func (db *DB) TakenBack(ctx context.Context) (taken site.TakenBack, ok bool, err error) {
	if !exists(db.cfg.Path + newerMark) {
		return taken, false, nil
	}
	return readTaken(ctx, db.reader())
}

func readTaken(ctx context.Context, q queryer) (taken site.TakenBack, ok bool, err error) {
	text, err := readMeta(ctx, q, metaTaken)
	if err != nil || text == "" {
		return taken, false, storageError(err)
	}
	err = json.Unmarshal([]byte(text), &taken)
	return taken, err == nil, err
}

// condition is how much is expected of the newer database.
type condition int

const (
	whole        condition = iota
	damaged                // some of it can be read
	unattachable           // the same, but a statement that fails on it would end the transaction
)

// String is the name of the condition in the log.
func (c condition) String() string { return [...]string{"whole", "damaged", "unattachable"}[c] }

// taking is a copy that becomes the database again.
type taking struct {
	cfg   Config
	newer condition
	taken site.TakenBack

	conn    *sql.Conn // of the copy, with the newer database attached under that name
	at      chain     // where its journal ends
	bytes   int64     // of its bodies
	newest  site.Record
	changes []site.Record // of the trial, that this version may have to carry over or to name
}

// from rebuilds the copy from the newer database, opened as its condition requires. name
// is the newer database's in messages.
func (t *taking) from(ctx context.Context, work string, known int, name string) error {
	if t.newer == whole {
		_, err := readFile(ctx, t.cfg.Path, name, func(newer *sql.DB) (any, error) { return nil, t.rebuild(ctx, work, known, newer) })
		return err
	}
	newer := connect(exclusive(t.cfg.Path)+salvage, 1)
	err := errors.Join(t.rebuild(ctx, work, known, newer), newer.Close())
	return unusable(ctx, "The copy "+copyName(t.cfg.Path, known), err)
}

// rebuild carries over the trial in one transaction, which it checks first.
func (t *taking) rebuild(ctx context.Context, work string, known int, newer *sql.DB) (err error) {
	pragmas, attached := workPragmas, readOnly(t.cfg.Path)+"&vfs=unix"
	if t.newer == damaged {
		pragmas, attached = workPragmas+"&_pragma=writable_schema(1)&_pragma=cell_size_check(1)", exclusive(t.cfg.Path)
	}
	db := connect(dsn(work, pragmas), 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if t.conn, err = db.Conn(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.conn.Close()) }()
	if schema, err := schemaOf(ctx, t.conn); err != nil || schema != known {
		return errors.Join(err, fmt.Errorf("%w: the copy has the schema %d", errDamagedFile, schema))
	}
	if t.newer != unattachable {
		if err := t.exec(ctx, "ATTACH ? AS newer", attached); err != nil {
			return err
		}
	}
	if err := t.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err = t.carryJournal(ctx, newer)
	for _, step := range []func(context.Context) error{t.carryState, t.carryChanges, t.record} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err == nil {
		err = pragmaCheck(ctx, t.conn, "main.quick_check(1)")
	}
	if err != nil {
		return errors.Join(err, t.exec(context.WithoutCancel(ctx), "ROLLBACK"))
	}
	return t.exec(ctx, "COMMIT")
}

func (t *taking) exec(ctx context.Context, text string, args ...any) error {
	_, err := t.conn.ExecContext(ctx, text, args...)
	return err
}

// record appends the record of what was done, and has the copy's other rows agree.
func (t *taking) record(ctx context.Context) error {
	r := site.Record{Kind: site.KindTakenBack, Facts: site.Facts{
		From: t.taken.From, To: t.taken.To, Count: int(t.taken.To + 1 - t.taken.From), Detail: t.taken.String(), //nolint:gosec // fits for ever
	}}
	if r.Count == 0 {
		r.From, r.To = 0, 0
	}
	if err := t.append(ctx, r); err != nil {
		return err
	}
	t.taken.Time = t.newest.Time
	meta, _ := json.Marshal(t.taken) // texts and numbers can be written
	const setMeta = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
	return errors.Join(
		t.exec(ctx, "UPDATE journal_ends SET last = ?, hash = ?, bytes = ?, evidence = -1", int64(t.at.seq), t.at.hash[:], t.bytes), //nolint:gosec // seq fits
		t.exec(ctx, setMeta, metaTaken, string(meta)),
		t.exec(ctx, setMeta, metaVersion, uuid.NewString()), // no copy of before agrees
	)
}

// append adds a record of now to the journal.
func (t *taking) append(ctx context.Context, r site.Record) error {
	floor, err := savedFloor(ctx, t.conn)
	if err != nil && !errors.Is(err, errDamaged) {
		return err
	}
	latest := fromMillis(floor)
	if t.newest.Time.After(latest) {
		latest = t.newest.Time.Time
	}
	r.Seq, r.Time, r.Boot = t.at.seq+1, site.At(floorClock(latest).Now()), t.cfg.Boot
	text := r.AppendJSON(nil)
	t.at = t.at.next(text)
	t.bytes, t.newest = t.bytes+int64(len(text)), r
	return t.exec(ctx, insertText, int64(r.Seq), r.Time.UnixMilli(), 0, string(text), t.at.hash[:]) //nolint:gosec // seq fits
}

// name adds a change to those that are undone, in plain words.
func (t *taking) name(r site.Record) {
	if len(t.taken.Undone) == namedChanges {
		t.taken.More++
		return
	}
	var what []string
	if r.Email != "" {
		what = append(what, string(r.Email))
	}
	if r.Station != 0 {
		what = append(what, "station "+r.Station.String())
	}
	if r.Detail != "" {
		what = append(what, r.Detail)
	}
	text := strings.ReplaceAll(string(r.Kind), "-", " ") + ": " + strings.Join(what, ", ")
	if by := r.Doer(); by != "" {
		text += ", by " + by
	}
	t.taken.Undone = append(t.taken.Undone, text+", "+r.Time.String())
}
