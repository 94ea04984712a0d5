package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeClock is a clock that tests set.
type fakeClock struct {
	ms      atomic.Int64
	trusted atomic.Bool
}

func (c *fakeClock) Now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *fakeClock) Trusted() bool  { return c.trusted.Load() }

func newClock() *fakeClock {
	c := &fakeClock{}
	c.ms.Store(1_800_000_000_000)
	c.trusted.Store(true)
	return c
}

func open(t *testing.T, path string, clock site.Clock) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: "boot-1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	db.UseClock(clock)
	return db
}

func fresh(t *testing.T) (*sqlite.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, path
}

func unlockRecord(station int) site.Record {
	return site.Record{Kind: site.KindUnlock, Facts: site.Facts{Origin: site.Local, Station: site.StationID(station), Lock: "lock-1", Outcome: site.Requested}}
}

func mustRead(t *testing.T, db *sqlite.DB, q journal.Query) []site.Record {
	t.Helper()
	records, err := db.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func mustVerify(t *testing.T, db *sqlite.DB, want int) {
	t.Helper()
	v, err := db.Verify(t.Context())
	if err != nil || v.Broken != 0 || v.Records != want {
		t.Fatalf("verdict %+v, %v; want %d sound records", v, err, want)
	}
}

// until waits for a condition that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain until ", what)
		}
	}
}

func TestDB_Append_isThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b#%.db") // a path that a URL would take apart
	db := open(t, path, newClock())
	for i := range 3 {
		if err := db.Append(t.Context(), unlockRecord(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if err := db.Append(t.Context(), unlockRecord(4)); err != nil {
		t.Fatal(err)
	}
	records := mustRead(t, db, journal.Query{})
	for i, r := range records {
		if r.Seq != uint64(i+1) || int(r.Station) != i+1 || r.Boot != "boot-1" || !r.ClockTrusted || r.Time.UnixMilli() != 1_800_000_000_000 {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	if len(records) != 4 {
		t.Errorf("%d records, want 4", len(records))
	}
	mustVerify(t, db, 4)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestDB_Append_concurrentCallersShareATransaction(t *testing.T) {
	db, _ := fresh(t)
	var commits atomic.Int64
	release := make(chan struct{})
	<-db.Hold(release)
	db.Watch(func(error) { commits.Add(1) })
	const callers = 50
	errs := make(chan error, callers)
	for i := range callers {
		go func() { errs <- db.Append(context.Background(), unlockRecord(i+1)) }()
	}
	until(t, "all callers wait", func() bool { return db.Waiting() == callers })
	close(release)
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := commits.Load(); n != 2 { // the holder's own and one for all the others
		t.Errorf("%d transactions for %d callers, want 2", n, callers)
	}
	mustVerify(t, db, callers)
}

func TestDB_do_aFailedUseCaseLeavesTheOthersOfItsBatch(t *testing.T) {
	db, _ := fresh(t)
	release := make(chan struct{})
	<-db.Hold(release)
	account := site.Account{ID: "a-1", Email: "porter@example.test", Password: "hash"}
	twin := site.Account{ID: "a-2", Email: "porter@example.test", Password: "hash"}
	first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		first <- db.AddAccount(context.Background(), account, site.Record{Kind: site.KindAccountAdded})
	}()
	until(t, "the first waits", func() bool { return db.Waiting() == 1 })
	go func() {
		second <- db.AddAccount(context.Background(), twin, site.Record{Kind: site.KindAccountAdded})
	}()
	until(t, "the second waits", func() bool { return db.Waiting() == 2 })
	go func() { third <- db.Append(context.Background(), unlockRecord(7)) }()
	until(t, "the third waits", func() bool { return db.Waiting() == 3 })
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; !fault.Is(err, fault.Conflict) {
		t.Errorf("twin e-mail: %v, want a conflict", err)
	}
	if err := <-third; err != nil {
		t.Error(err)
	}
	records := mustRead(t, db, journal.Query{})
	if len(records) != 2 || records[1].Kind != site.KindUnlock {
		t.Errorf("records %+v: want one account-added and one unlock", records)
	}
	mustVerify(t, db, 2)
}

func TestDB_Append_fullDiskKeepsRecordsInOrder(t *testing.T) {
	db, _ := fresh(t)
	var failing atomic.Bool
	db.Watch(func(err error) { failing.Store(err != nil) })
	if err := db.LimitPages(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wrote := 0
	for ; ; wrote++ { // until the file's last page is full
		err := db.Append(t.Context(), unlockRecord(1))
		if fault.Is(err, fault.Unavailable) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !failing.Load() {
		t.Error("the watcher did not hear of the full disk")
	}
	big := site.Record{Kind: site.KindLogin, Facts: site.Facts{Detail: strings.Repeat("x", 4000)}}
	for i := range 3 {
		big.Count = i + 1
		db.AppendLater(big)
	}
	until(t, "the writer has tried", func() bool { return failing.Load() && db.Kept() == 3 })
	if err := db.LimitPages(t.Context(), false); err != nil && !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	until(t, "the kept records are written", func() bool { return db.Kept() == 0 })
	if err := db.Append(t.Context(), unlockRecord(2)); err != nil {
		t.Fatal(err)
	}
	records := mustRead(t, db, journal.Query{AfterSeq: uint64(wrote)})
	if len(records) != 4 || records[0].Count != 1 || records[1].Count != 2 || records[2].Count != 3 || records[3].Station != 2 {
		t.Errorf("after the full disk: %d records, want the three kept ones in order and the new one", len(records))
	}
	mustVerify(t, db, wrote+4)
}

func TestDB_AppendLater_overflowIsRecorded(t *testing.T) {
	db, _ := fresh(t)
	release := make(chan struct{})
	<-db.Hold(release)
	const over = 5
	for i := range sqlite.MaxLater + over {
		r := unlockRecord(1)
		r.Count = i + 1
		db.AppendLater(r)
	}
	close(release)
	until(t, "the records are written", func() bool { return db.Kept() == 0 && db.Latest() == sqlite.MaxLater+1 })
	records := mustRead(t, db, journal.Query{Limit: 2})
	if records[0].Kind != site.KindRecordsLost || records[0].Count != over || records[1].Count != over+1 {
		t.Errorf("first records %+v: want the loss of %d and then the oldest kept", records, over)
	}
}

func TestDB_Append_contextEndsBeforeTheDisk(t *testing.T) {
	db, _ := fresh(t)
	release := make(chan struct{})
	<-db.Hold(release)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Append(ctx, unlockRecord(1)); !fault.Is(err, fault.Timeout) {
		t.Errorf("got %v, want a timeout", err)
	}
	close(release)
	until(t, "the queued record is written all the same", func() bool { return db.Latest() == 1 })
}

func TestDB_Close_writesWhatIsQueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	db := open(t, path, newClock())
	for range 1000 {
		db.AppendLater(unlockRecord(1))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Append(t.Context(), unlockRecord(1)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after Close: %v, want unavailable", err)
	}
	if files, err := filepath.Glob(path + "-*"); err != nil || len(files) != 0 {
		t.Errorf("%v, %v: a closed database is one file, so that it can be copied", files, err)
	}
	v, err := sqlite.VerifyFile(t.Context(), path)
	if err != nil || v.Records != 1000 || v.Broken != 0 {
		t.Errorf("verdict %+v, %v; want 1000 sound records", v, err)
	}
}

func TestOpen_newerDatabaseIsRefusedUntouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	if err := open(t, path, newClock()).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, "PRAGMA user_version = 99")
	before := digest(t, path)
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("got %v, want a conflict that names the newer version", err)
	}
	if digest(t, path) != before {
		t.Error("the refused database was changed")
	}
}

func TestOpen_notADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestDB_GatewayID_isMadeOnce(t *testing.T) {
	db, _ := fresh(t)
	first, err := db.GatewayID(t.Context())
	if err != nil || len(first) != 36 {
		t.Fatalf("%q, %v", first, err)
	}
	if second, err := db.GatewayID(t.Context()); err != nil || second != first {
		t.Errorf("%q, %v; want %q again", second, err, first)
	}
}

func TestDB_Floor_isTheLaterOfSavedAndTrustedRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	clock := newClock()
	db := open(t, path, clock)
	defer func() { _ = db.Close() }()
	check := func(want int64) {
		t.Helper()
		floor, err := db.Floor(t.Context())
		if err != nil || floor.UnixMilli() != want {
			t.Errorf("floor %v, %v; want %d", floor.UnixMilli(), err, want)
		}
	}
	if err := db.SaveFloor(t.Context(), time.UnixMilli(1000)); err != nil {
		t.Fatal(err)
	}
	check(1000)
	if err := db.Append(t.Context(), unlockRecord(1)); err != nil {
		t.Fatal(err)
	}
	check(1_800_000_000_000)
	clock.trusted.Store(false)
	clock.ms.Add(1e9)
	if err := db.Append(t.Context(), unlockRecord(1)); err != nil {
		t.Fatal(err)
	}
	check(1000)
}

func tamper(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
}

func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
