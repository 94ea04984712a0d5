package sqlite_test

import (
	"errors"
	"testing"

	"gatehouse/internal/site"
)

// The outcome of an update is remembered with its record, over a restart.
func TestDB_RecordUpdate(t *testing.T) {
	db, path := fresh(t)
	want := func(end string, seq uint64) {
		t.Helper()
		if got, err := db.UpdateEnd(t.Context()); err != nil || got != end || db.Latest() != seq {
			t.Errorf("%q, %v, seq %d; want %q, %d", got, err, db.Latest(), end, seq)
		}
	}
	want("", 0)
	r := site.Record{Kind: site.KindUpdate, Facts: site.Facts{Outcome: site.Committed, Version: "1.3.0"}}
	if err := errors.Join(db.RecordUpdate(t.Context(), "first", r), db.Close()); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	want("first", 1)
}
