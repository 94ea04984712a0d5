package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"
)

// A store that has just written says so without writing again; an idle one writes.
func TestDB_Alive(t *testing.T) {
	db, path := fresh(t)
	if err := db.SaveFloor(t.Context(), at(1000)); err != nil {
		t.Fatal(err)
	}
	if err := db.Alive(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := metaValue(t, path, "alive"); got != "" {
		t.Errorf("it wrote %q though it had just written", got)
	}
	if err := db.Alive(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if metaValue(t, path, "alive") == "" {
		t.Error("nothing was written")
	}
}

// A full disk has answered; a disk that hangs has not, and is not asked twice.
func TestDB_Alive_whileTheDiskFails(t *testing.T) {
	db, _ := fresh(t)
	fillUp(t, db)
	if err := db.Alive(t.Context(), 0); err != nil {
		t.Errorf("a full disk counts as dead: %v", err)
	}
	release := make(chan struct{})
	<-db.Hold(release)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := db.Alive(ctx, 0); err == nil {
			t.Error("a store that hangs counts as alive")
		}
		cancel()
	}
	waited := make(chan error, 1)
	go func() { waited <- db.Alive(t.Context(), 0) }() // hears the answer to the first question, when it comes
	close(release)
	if err := <-waited; err != nil {
		t.Errorf("a store that answers late counts as dead: %v", err)
	}
	until(t, "the store to answer again", func() bool { return db.Alive(t.Context(), 0) == nil })
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
