package sqlite_test

import (
	"math"
	"path/filepath"
	"testing"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// failed returns a record that a stranger causes.
func failed(i int) site.Record {
	return site.Record{Kind: site.KindLoginFailed, Facts: site.Facts{Remote: "192.0.2.7", Detail: "wrong password", Count: i}}
}

// flooded returns a database with ten unlocks, each between hundreds of records that a
// stranger causes.
func flooded(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db := open(t, path, newClock())
	for i := range 3000 {
		if i%300 == 150 {
			db.AppendLater(unlockRecord(i/300 + 1))
		}
		db.AppendLater(failed(i))
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func within(most int64) journal.Retention {
	return journal.Retention{MaxBytes: most, HardBytes: math.MaxInt64, Held: math.MaxInt64}
}

// However many records strangers cause, no unlock is removed for them, and the journal is
// whole: what was removed is counted, and the next start knows it too.
func TestDB_Prune_evidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.db")
	db := flooded(t, path)
	all := db.Bytes()
	removed, err := db.Prune(t.Context(), within(all))
	if err != nil || removed.Records < 2200 || removed.Undelivered != 0 {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	check := func(removed int) {
		t.Helper()
		if n := len(mustRead(t, db, journal.Query{Kinds: []site.Kind{site.KindUnlock}})); n != 10 {
			t.Errorf("%d unlocks are left of 10", n)
		}
		if got := db.Evidence(); got > all/4 || got < all/4*90/100 {
			t.Errorf("%d bytes of evidence are left of %d", got, all)
		}
		if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 || v.Removed != uint64(removed) || db.Oldest() != 1 {
			t.Errorf("verdict %+v, %v, oldest %d; want %d removed", v, err, db.Oldest(), removed)
		}
	}
	check(removed.Records)
	if again, err := db.Prune(t.Context(), within(all)); err != nil || again != (journal.Removed{}) {
		t.Errorf("again %+v, %v", again, err)
	}
	before := db.Evidence()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if db.Evidence() != before {
		t.Errorf("%d bytes of evidence after the restart, %d before", db.Evidence(), before)
	}
	for i := range 1000 {
		db.AppendLater(failed(i))
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	more, err := db.Prune(t.Context(), within(all))
	if err != nil || more.Records < 900 {
		t.Fatalf("removed %+v, %v", more, err)
	}
	check(removed.Records + more.Records)
	// In its turn everything goes, whatever stands in its place.
	if _, err := db.Prune(t.Context(), within(4)); err != nil || db.Oldest() == 1 {
		t.Errorf("oldest %d, %v", db.Oldest(), err)
	}
	if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

// What the cloud has not taken goes at a quarter of the hard size only, and the cloud hears
// of a gap.
func TestDB_Prune_evidenceForCloud(t *testing.T) {
	db := flooded(t, filepath.Join(t.TempDir(), "g.db"))
	defer func() { _ = db.Close() }()
	r := journal.Retention{MaxBytes: db.Bytes() / 2, HardBytes: 4 * db.Bytes(), Held: 0}
	if removed, err := db.Prune(t.Context(), r); err != nil || removed != (journal.Removed{}) {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	r.HardBytes = db.Bytes()
	removed, err := db.Prune(t.Context(), r)
	if err != nil || removed.Records < 2200 || removed.Undelivered != removed.Records {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	mustVerifyRemoved(t, db, removed.Records)
}

func mustVerifyRemoved(t *testing.T, db *sqlite.DB, removed int) {
	t.Helper()
	if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 || v.Removed != uint64(removed) {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

// Another record that was removed in the same way is found out, also in a copied file.
func TestVerify_removedLikeEvidence(t *testing.T) {
	for name, change := range map[string]string{
		"an unlock":               `UPDATE journal SET station = 0, body = 'removed from ' || seq WHERE seq = (SELECT min(seq) FROM journal WHERE body LIKE '%"unlock"%')`,
		"one that was not old":    `UPDATE journal SET station = 0, body = 'removed from ' || seq WHERE seq = (SELECT max(seq) - 9 FROM journal WHERE body LIKE '%"login-failed"%')`,
		"a neighbour of a run":    `UPDATE journal SET body = 'removed from 1' WHERE seq = (SELECT min(seq) FROM journal WHERE body LIKE '%"unlock"%'); DELETE FROM journal WHERE seq < (SELECT min(seq) FROM journal WHERE body LIKE '%"login-failed"%') AND body LIKE 'removed%'`,
		"the row that stands":     `DELETE FROM journal WHERE seq = (SELECT min(seq) FROM journal)`,
		"the first of a run":      `UPDATE journal SET body = 'removed from 7' WHERE seq = (SELECT min(seq) FROM journal)`,
		"the hash of a run":       `UPDATE journal SET hash = zeroblob(32) WHERE seq = (SELECT min(seq) FROM journal)`,
		"a record behind a run":   `UPDATE journal SET body = replace(body, '"origin"', '"orlgin"') WHERE seq = (SELECT min(seq) FROM journal WHERE body LIKE '%"unlock"%')`,
		"the count of a removal":  `UPDATE journal SET body = replace(body, '"count":', '"count":1') WHERE seq = (SELECT min(seq) FROM journal WHERE body LIKE '%"gap"%')`,
		"the record of a removal": `UPDATE journal SET body = 'removed from ' || seq WHERE seq = (SELECT min(seq) FROM journal WHERE body LIKE '%"gap"%')`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "g.db")
			db := flooded(t, path)
			if _, err := db.Prune(t.Context(), within(db.Bytes())); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, path, change)
			if v, err := (sqlite.Files{}).Verify(t.Context(), path); err != nil || v.Broken == 0 {
				t.Errorf("verdict %+v, %v", v, err)
			}
		})
	}
}
