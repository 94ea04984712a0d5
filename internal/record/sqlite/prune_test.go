package sqlite_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestDB_Prune(t *testing.T) {
	cut := time.UnixMilli(1_800_000_000_000 + 4*7_200_000) // four records are older
	const none, most = math.MaxInt64, math.MaxInt64
	for name, c := range map[string]struct {
		before  time.Time
		max     int64 // in records
		held    uint64
		hard    int64 // in records
		removed journal.Removed
	}{
		"nothing asked":             {time.Time{}, most, none, most, journal.Removed{}},
		"by age":                    {cut, most, none, most, journal.Removed{Records: 4}},
		"by size":                   {time.Time{}, 5, none, most, journal.Removed{Records: 5}},
		"by size to nothing":        {time.Time{}, 0, none, most, journal.Removed{Records: 10}},
		"never what is held":        {cut, 0, 2, most, journal.Removed{Records: 2}},
		"nothing while all is held": {cut, 0, 0, most, journal.Removed{}},
		"at the hard size":          {cut, 0, 2, 8, journal.Removed{Records: 2}},
		"beyond the hard size":      {cut, 0, 2, 7, journal.Removed{Records: 4, Undelivered: 2}},
		"nothing was delivered":     {time.Time{}, most, 0, 4, journal.Removed{Records: 7, Undelivered: 7}},
		"all was delivered":         {time.Time{}, most, none, 4, journal.Removed{Records: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			db, _, _ := filled(t)
			defer func() { _ = db.Close() }()
			each := (db.Bytes() + 9) / 10
			size := func(records int64) int64 {
				if records == most {
					return most
				}
				return records * each
			}
			removed, err := db.Prune(t.Context(), journal.Retention{Before: c.before, MaxBytes: size(c.max), Held: c.held, HardBytes: size(c.hard)})
			if err != nil || removed != c.removed {
				t.Fatalf("removed %+v, %v; want %+v", removed, err, c.removed)
			}
			if err := db.AppendRecord(t.Context(), unlockRecord(3)); err != nil {
				t.Fatal(err)
			}
			first, last := uint64(removed.Records+1), uint64(11)
			if removed.Undelivered > 0 {
				last++
				checkGap(t, mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindGap}}), uint64(removed.Records-removed.Undelivered+1), uint64(removed.Records))
			}
			now := db.Size()
			if now.First != first || now.Last != last || now.Records != int64(last-first+1) || db.Oldest() != first {
				t.Errorf("size %+v, oldest %d; want %d to %d", now, db.Oldest(), first, last)
			}
			mustVerify(t, db, int(last-first+1))
		})
	}
}

// checkGap finds one record of a gap, from one seq to another.
func checkGap(t *testing.T, gaps []site.Record, from, to uint64) {
	t.Helper()
	if len(gaps) != 1 {
		t.Fatalf("%d gaps: %+v", len(gaps), gaps)
	}
	if g := gaps[0]; g.From != from || g.To != to || g.Count != int(to-from+1) || g.Detail == "" || g.Boot != "boot-1" || g.Time.IsZero() || g.Seq <= to {
		t.Errorf("the gap is %+v, want %d to %d", g, from, to)
	}
}

// grown returns a database with so many records.
func grown(t *testing.T, path string, records int) *sqlite.DB {
	t.Helper()
	db := open(t, path, newClock())
	for i := range records {
		db.AppendLater(unlockRecord(i%9 + 1))
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// All that was given before is on the disk, also where it takes several transactions.
func TestDB_Flush_much(t *testing.T) {
	db := grown(t, filepath.Join(t.TempDir(), "g.db"), 5000)
	defer func() { _ = db.Close() }()
	if db.Latest() != 5000 || db.Kept() != 0 {
		t.Errorf("%d records are written and %d wait", db.Latest(), db.Kept())
	}
}

// However many steps it takes, one gap covers them, and it is written with the first.
func TestDB_Prune_oneGapOfManySteps(t *testing.T) {
	db := grown(t, filepath.Join(t.TempDir(), "g.db"), 5000)
	defer func() { _ = db.Close() }()
	hard := db.Bytes() / 2
	removed, err := db.Prune(t.Context(), journal.Retention{MaxBytes: 1, Held: 100, HardBytes: hard})
	if err != nil || removed.Records < 2600 || removed.Undelivered != removed.Records-100 {
		t.Fatalf("%+v, %v", removed, err)
	}
	if left := db.Bytes(); left > hard*95/100+500 || left < hard*95/100-500 {
		t.Errorf("%d bytes are left of %d", left, hard)
	}
	checkGap(t, mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindGap}}), 101, uint64(removed.Records))
	mustVerify(t, db, 5001-removed.Records)
	if again, err := db.Prune(t.Context(), journal.Retention{MaxBytes: 1, Held: 100, HardBytes: hard}); err != nil || again != (journal.Removed{}) {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// A process that ends between the steps leaves a sound journal and the gap; what the gap
// declared lost and still has is delivered, or goes with the next.
func TestDB_Prune_interrupted(t *testing.T) {
	for steps := 1; steps < 4; steps++ {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "g.db")
			db := grown(t, path, 5000)
			hard := db.Bytes() / 2
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := 0
			db.Watch(func(error) {
				if done++; done == steps {
					cancel()
				}
			})
			limits := journal.Retention{MaxBytes: math.MaxInt64, HardBytes: hard, Held: 100}
			removed, err := db.Prune(ctx, limits)
			if err == nil || removed.Records != steps*500 || removed.Undelivered != steps*500-100 {
				t.Fatalf("%+v, %v", removed, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = open(t, path, newClock())
			defer func() { _ = db.Close() }()
			first, gaps := uint64(removed.Records)+1, mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindGap}})
			mustVerify(t, db, 5000+len(gaps)-removed.Records)
			checkGap(t, gaps, 101, gaps[0].To)
			if entries, err := db.Outbox(t.Context(), 0, 1); err != nil || len(entries) != 1 || entries[0].Seq != first || db.Oldest() != first {
				t.Errorf("the next is %+v (oldest %d), %v", entries, db.Oldest(), err)
			}
			again, err := db.Prune(t.Context(), limits)
			if err != nil || again.Records < 1000 || db.Bytes() > hard {
				t.Fatalf("again %+v, %v", again, err)
			}
			later := mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindGap}})[len(gaps):]
			checkGap(t, later, max(first, 101), first-1+uint64(again.Records))
			mustVerify(t, db, 5000+len(gaps)+1-removed.Records-again.Records)
		})
	}
}

// On a full disk the first try takes waiting records along and fails; the second reports
// of the gap once.
func TestDB_Prune_fullDisk(t *testing.T) {
	db := grown(t, filepath.Join(t.TempDir(), "g.db"), 2000)
	defer func() { _ = db.Close() }()
	var failed atomic.Int64
	db.Watch(func(err error) {
		if err != nil {
			failed.Add(1)
		}
	})
	wrote := 2000 + fillUp(t, db)
	db.AppendLater(site.Record{Kind: site.KindLogin, Facts: site.Facts{Detail: strings.Repeat("x", 3000)}})
	removed, err := db.Prune(t.Context(), journal.Retention{MaxBytes: math.MaxInt64, Held: 1, HardBytes: db.Bytes() / 2})
	if err != nil || removed.Undelivered != removed.Records-1 || failed.Load() == 0 {
		t.Fatalf("%+v, %v", removed, err)
	}
	await.Until(t, "the kept record is written", func() bool { return db.Latest() == uint64(wrote+2) })
	checkGap(t, mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindGap}}), 2, uint64(removed.Records))
	mustVerify(t, db, wrote+2-removed.Records)
}

// pruneModel is what the journal must be, by the simplest rules.
type pruneModel struct {
	first, last uint64
	sizes       map[uint64]int64
	bytes       int64
	held        uint64
	gaps        [][2]uint64
}

func (m *pruneModel) append(seq uint64, size int64) {
	m.last, m.sizes[seq] = seq, size
	m.bytes += size
}

// shift removes records from the front while one is there and has to go.
func (m *pruneModel) shift(goes func() bool) {
	for ; m.first <= m.last && goes(); m.first++ {
		m.bytes -= m.sizes[m.first]
	}
}

// prune does it, and reports whether it makes a gap.
func (m *pruneModel) prune(most, hard int64) bool {
	m.shift(func() bool { return m.first <= m.held && m.bytes > most })
	if m.bytes <= hard {
		return false
	}
	from := max(m.first, m.held+1)
	m.shift(func() bool { return m.bytes > hard/100*95 })
	if from < m.first {
		m.gaps = append(m.gaps, [2]uint64{from, m.first - 1})
	}
	return from < m.first
}

// Whatever is written, taken by the cloud and removed in whatever order: the journal is
// that of the model, and nothing that was not delivered goes without a gap.
func TestDB_Prune_model(t *testing.T) {
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		path := filepath.Join(dir, strconv.Itoa(runs)+".db")
		db := open(t, path, newClock())
		defer func() { _ = db.Close() }()
		m := &pruneModel{first: 1, sizes: map[uint64]int64{}}
		known := func() {
			for _, r := range mustRead(t, db, journal.Query{AfterSeq: m.last, Limit: 5000}) {
				m.append(r.Seq, int64(len(encode(rt, r))))
			}
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "deliver", "prune", "prune", "reopen"}).Draw(rt, "step") {
			case "append":
				for i := range rapid.SampledFrom([]int{1, 20, 100}).Draw(rt, "n") {
					db.AppendLater(unlockRecord(i + 1))
				}
				if err := db.Flush(t.Context()); err != nil {
					rt.Fatal(err)
				}
				known()
			case "deliver":
				m.held = rapid.Uint64Range(m.held, max(m.held, m.last)).Draw(rt, "held")
			case "prune":
				most := rapid.Int64Range(0, 40_000).Draw(rt, "most")
				hard := most + rapid.Int64Range(100, 40_000).Draw(rt, "more")
				first := m.first
				gap := m.prune(most, hard)
				removed, err := db.Prune(t.Context(), journal.Retention{MaxBytes: most, Held: m.held, HardBytes: hard})
				if err != nil || uint64(removed.Records) != m.first-first || (removed.Undelivered > 0) != gap {
					rt.Fatalf("removed %+v, %v; want %d, a gap: %t", removed, err, m.first-first, gap)
				}
				known()
			case "reopen":
				if err := db.Close(); err != nil {
					rt.Fatal(err)
				}
				db = open(t, path, newClock())
			}
			if size := db.Size(); db.Oldest() != m.first || size.Last != m.last || size.Bytes != m.bytes || db.Bytes() != m.bytes {
				rt.Fatalf("%+v from %d; want %d to %d, %d bytes", size, db.Oldest(), m.first, m.last, m.bytes)
			}
		}
		if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 || v.First != m.first || v.Last != m.last {
			rt.Fatalf("verdict %+v, %v; want %d to %d", v, err, m.first, m.last)
		}
		var reported [][2]uint64
		for _, r := range mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindGap}}) {
			reported = append(reported, [2]uint64{r.From, r.To})
		}
		if n := len(m.gaps) - len(reported); n < 0 || !slices.Equal(m.gaps[n:], reported) { // older ones may be gone themselves
			rt.Fatalf("gaps %v, want %v", reported, m.gaps)
		}
	})
}

// A damaged page that retention comes upon is set aside by the next start: else nothing
// would ever be removed again.
func TestDB_Prune_damagedPage(t *testing.T) {
	path := inUse(t, 25_000) // more than a start looks at
	spoil(t, path, leafFrom(t, path, 60))
	for _, rescued := range []bool{false, true} {
		db := sound(t, path)
		if (db.Rescued() != "") != rescued {
			t.Errorf("rescued %q, want %v", db.Rescued(), rescued)
		}
		removed, err := db.Prune(t.Context(), journal.Retention{Before: newClock().Now().AddDate(1, 0, 0), MaxBytes: math.MaxInt64, Held: math.MaxInt64, HardBytes: math.MaxInt64})
		if rescued && (err != nil || removed.Records == 0) {
			t.Errorf("removed %+v, %v", removed, err)
		}
		closeDB(t, db)
	}
}

// What was possible: the clock stepped ahead by years, as a wrong time server had it, and retention
// removed the whole journal. No record ages by a step, also before the first record after it,
// over a restart, and when the clock is set back. Retention by size goes on.
func TestDB_Prune_afterAStep(t *testing.T) {
	const records, age, years = 10, 30 * 24 * time.Hour, 10 * 365 * 24 * time.Hour
	db, path, clock := filled(t)
	defer func() { _ = db.Close() }()
	move := func(d time.Duration) { clock.ms.Add(d.Milliseconds()) }
	prune := func(most int64, want int) {
		t.Helper()
		removed, err := db.Prune(t.Context(), journal.Retention{Before: clock.Now().Add(-age), MaxBytes: most, Held: math.MaxInt64, HardBytes: math.MaxInt64})
		if err != nil || removed.Records != want {
			t.Errorf("removed %d, %v; want %d", removed.Records, err, want)
		}
	}
	write := func() {
		t.Helper()
		if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
			t.Fatal(err)
		}
	}
	move(years)
	prune(math.MaxInt64, 0)
	write()
	prune(math.MaxInt64, 0)
	closeDB(t, db)
	db = open(t, path, clock)
	prune(math.MaxInt64, 0)
	move(-years)
	write()
	move(time.Hour)
	write()
	prune(math.MaxInt64, 0)
	prune(db.Bytes()/2, 7)
	for range 31 {
		move(23 * time.Hour)
		write()
	}
	prune(math.MaxInt64, 0)
	for range 2 {
		move(23 * time.Hour)
		write()
	}
	prune(math.MaxInt64, records-7+4) // that of the wrong time too, and those that are as old
}
