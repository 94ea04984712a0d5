package sqlite_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// What a witness says depends on where the journal begins and ends, and on whether the
// gateway was restored since.
func TestDB_Testify(t *testing.T) {
	t.Parallel()
	clock := newClock()
	path := t.TempDir() + "/gatehouse.db"
	db := open(t, path, clock)
	var heads []journal.Head
	for i := range 6 {
		clock.ms.Add(1000)
		r := unlockRecord(1)
		if i == 4 {
			r = site.Record{Kind: site.KindRestored}
		}
		if err := db.AppendRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		head, err := db.Head(t.Context())
		if err != nil || head.Seq != uint64(i+1) {
			t.Fatalf("head %+v, %v", head, err)
		}
		heads = append(heads, head)
	}
	if hash, err := db.HashAt(t.Context(), 3); err != nil || hash != heads[2].Hash {
		t.Errorf("hash %q, %v", hash, err)
	}
	if hash, err := db.HashAt(t.Context(), 7); err != nil || hash != "" {
		t.Errorf("hash %q, %v", hash, err)
	}
	if _, err := db.Prune(t.Context(), journal.Retention{Before: time.UnixMilli(clock.ms.Load() - 3500), MaxBytes: math.MaxInt64, Held: math.MaxInt64, HardBytes: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("ab", 32)
	before, after := site.At(time.UnixMilli(clock.ms.Load()-5000)), site.At(time.UnixMilli(clock.ms.Load()+5000))
	witnesses := []journal.Witness{
		{Head: heads[5]},
		{Head: heads[1]}, // the place before the first that is left
		{Head: heads[0]},
		{Head: journal.Head{Seq: 5, Hash: strings.ToUpper(heads[4].Hash)}},
		{Head: journal.Head{Seq: 4, Hash: other}},
		{Head: journal.Head{Seq: 4, Hash: other}, Time: before},
		{Head: journal.Head{Seq: 4, Hash: other}, Time: after},
		{Head: journal.Head{Seq: 9, Hash: other}},
	}
	want := []journal.Statement{
		journal.Agrees, journal.Agrees, journal.Gone, journal.Agrees,
		journal.Contradicts, journal.Superseded, journal.Contradicts, journal.Contradicts,
	}
	check := func(all []journal.Testimony, err error) {
		t.Helper()
		var got []journal.Statement
		for _, one := range all {
			got = append(got, one.Statement)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	check(db.Testify(t.Context(), witnesses))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check(sqlite.TestifyFile(t.Context(), path, witnesses))
}
