package sqlite_test

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
)

// A commit syncs once. A transaction that could not be synced has failed: its caller gets an
// error, and its record is not in the journal, also after later ones.
func TestDB_dataSync(t *testing.T) {
	var syncs atomic.Int64
	var failing atomic.Bool
	t.Cleanup(sqlite.OnSync(func() error {
		syncs.Add(1)
		if failing.Load() {
			return syscall.EIO
		}
		return nil
	}))
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil { // syncs the head of the log too
		t.Fatal(err)
	}
	for n := uint64(2); n < 5; n++ {
		before := syncs.Load()
		if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil || syncs.Load() != before+1 {
			t.Errorf("record %d: %v, after %d syncs", n, err, syncs.Load()-before)
		}
		failing.Store(true)
		if err := db.AppendRecord(t.Context(), unlockRecord(2)); !fault.Is(err, fault.Unavailable) || db.Latest() != n {
			t.Errorf("not synced: %v, and %d records", err, db.Latest())
		}
		failing.Store(false)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	mustVerify(t, db, 4)
}
