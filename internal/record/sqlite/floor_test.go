package sqlite_test

import (
	"database/sql"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// floorModel is a database, and what its time floor has to be: the latest time that was
// sure of all that it took.
type floorModel struct {
	outer *testing.T
	path  string
	clock *fakeClock
	db    *sqlite.DB
	want  int64
}

// The floor never goes back but by a reset, whatever is written or removed after it, and
// whichever way the process ends; and no clock raises it that is not trusted. The runs are short,
// because each step waits for the disk.
func TestDB_Floor_neverGoesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := &floorModel{outer: t, clock: newClock(), path: filepath.Join(t.TempDir(), "gatehouse.db")}
		m.db = open(t, m.path, m.clock)
		defer func() { _ = m.db.Close() }()
		steps := []func(*rapid.T){m.append, m.append, m.appendMany, m.save, m.reset, m.prune, m.renew, m.restart, m.powerCut}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(r, "step")](r)
			m.check(r)
		}
	})
}

func (m *floorModel) must(r *rapid.T, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// check compares the floor with the model, also as it will be after a power cut now.
func (m *floorModel) check(r *rapid.T) {
	if got := m.db.Floor(); millis(got) != m.want {
		r.Fatalf("the floor is %d, want %d", millis(got), m.want)
	}
	got, err := sqlite.FloorIn(m.outer.Context(), m.path)
	if m.must(r, err); millis(got) != m.want {
		r.Fatalf("the file has %d, want %d", millis(got), m.want)
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// tick sets the clock, which may read less than before: so do records that waited for the
// disk. A trusted one counts for the floor.
func (m *floorModel) tick(r *rapid.T) {
	ms := rapid.Int64Range(1_000, 1_020).Draw(r, "ms")
	trusted := rapid.Bool().Draw(r, "trusted")
	m.clock.ms.Store(ms)
	m.clock.trusted.Store(trusted)
	if trusted {
		m.want = max(m.want, ms)
	}
}

func (m *floorModel) append(r *rapid.T) {
	m.tick(r)
	m.must(r, m.db.AppendRecord(m.outer.Context(), unlockRecord(1)))
}

// appendMany has records share a transaction, as far as the writer has it.
func (m *floorModel) appendMany(r *rapid.T) {
	for range rapid.IntRange(2, 5).Draw(r, "records") {
		m.tick(r)
		m.db.AppendLater(unlockRecord(1))
	}
	m.must(r, m.db.Flush(m.outer.Context()))
}

func (m *floorModel) save(r *rapid.T) {
	ms := rapid.Int64Range(1_000, 1_020).Draw(r, "ms")
	m.want = max(m.want, ms)
	m.must(r, m.db.SaveFloor(m.outer.Context(), time.UnixMilli(ms)))
}

// reset lowers the floor, or leaves it, on record.
func (m *floorModel) reset(r *rapid.T) {
	m.want = min(m.want, rapid.Int64Range(1_000, 1_020).Draw(r, "ms"))
	at := time.UnixMilli(m.want)
	m.must(r, m.db.ResetFloor(m.outer.Context(), func() error { return nil }, at, site.Record{Time: site.At(at), Kind: site.KindClockReset}))
}

// prune removes the older records, or all.
func (m *floorModel) prune(r *rapid.T) {
	before := rapid.Int64Range(1_000, 1_021).Draw(r, "before")
	_, err := m.db.Prune(m.outer.Context(), journal.Retention{Before: time.UnixMilli(before), MaxBytes: math.MaxInt64, Held: math.MaxInt64, HardBytes: math.MaxInt64})
	m.must(r, err)
}

// renew has a restore write to the file of a gateway that is stopped.
func (m *floorModel) renew(r *rapid.T) {
	m.must(r, m.db.Close())
	files := sqlite.Files{Logger: slog.New(slog.DiscardHandler)}
	_, _, err := files.Renew(m.outer.Context(), m.path, nil, true, site.Record{Kind: site.KindRestored})
	m.must(r, err)
	m.db = open(m.outer, m.path, m.clock)
}

func (m *floorModel) restart(r *rapid.T) {
	m.must(r, m.db.Close())
	m.db = open(m.outer, m.path, m.clock)
}

// powerCut goes on with what a power cut would leave.
func (m *floorModel) powerCut(r *rapid.T) {
	left := filepath.Join(m.outer.TempDir(), "gatehouse.db")
	for _, part := range []string{"", "-wal"} {
		text, err := os.ReadFile(m.path + part)
		m.must(r, err)
		m.must(r, os.WriteFile(left+part, text, 0o600))
	}
	m.must(r, m.db.Close())
	m.path = left
	m.db = open(m.outer, m.path, m.clock)
}

// The record of an unlock holds the floor by itself: nothing is written beside it. The
// first that does not has the floor of the one before saved, once.
func TestDB_Floor_costsNoUnlockAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	clock := newClock()
	db := open(t, path, clock)
	defer func() { _ = db.Close() }()
	add := func(want string) {
		t.Helper()
		clock.ms.Add(1)
		if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
			t.Fatal(err)
		}
		if got := metaValue(t, path, "clock_floor"); got != want {
			t.Errorf("saved %q, want %q", got, want)
		}
	}
	add("")
	add("")
	last := strconv.FormatInt(clock.ms.Load(), 10)
	clock.trusted.Store(false)
	add(last)
	add(last)
	clock.trusted.Store(true)
	add(last)
}

// What the disk did not take was never sure.
func TestDB_Floor_ofAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	clock := newClock()
	db := open(t, path, clock)
	defer func() { _ = db.Close() }()
	fillUp(t, db)
	before := db.Floor()
	clock.ms.Add(time.Hour.Milliseconds())
	if err := db.AppendRecord(t.Context(), unlockRecord(1)); err == nil {
		t.Fatal("the disk is not full")
	}
	unchanged := func() {
		t.Helper()
		after := db.Floor()
		saved, err := sqlite.FloorIn(t.Context(), path)
		if err != nil || !after.Equal(before) || !saved.Equal(before) {
			t.Errorf("the floor is %s and the file has %s, %v; want %s", after, saved, err, before)
		}
	}
	unchanged()
	if err := db.LimitPages(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	clock.trusted.Store(false)
	if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
		t.Fatal(err)
	}
	unchanged()
}

// metaValue reads a named value from outside.
func metaValue(t *testing.T, path, key string) (value string) {
	t.Helper()
	file, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	row := file.QueryRowContext(t.Context(), "SELECT value FROM meta WHERE key = ?", key)
	_ = row.Scan(&value) // no such row leaves it empty
	return value
}
