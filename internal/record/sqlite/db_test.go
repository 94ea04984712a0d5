package sqlite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

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

func TestDB_Append_isThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b#%.db") // a path that a URL would take apart
	db := open(t, path, newClock())
	for i := range 3 {
		if err := db.AppendRecord(t.Context(), unlockRecord(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, newClock())
	defer func() { _ = db.Close() }()
	if err := db.AppendRecord(t.Context(), unlockRecord(4)); err != nil {
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
		go func() { errs <- db.AppendRecord(context.Background(), unlockRecord(i+1)) }()
	}
	await.Until(t, "all callers wait", func() bool { return db.Waiting() == callers })
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
		first <- db.Amend(context.Background(), nil, []site.Amendment{{AddAccount: &account, Record: site.Record{Kind: site.KindAccountAdded}}})
	}()
	await.Until(t, "the first waits", func() bool { return db.Waiting() == 1 })
	go func() {
		second <- db.Amend(context.Background(), nil, []site.Amendment{{AddAccount: &twin, Record: site.Record{Kind: site.KindAccountAdded}}})
	}()
	await.Until(t, "the second waits", func() bool { return db.Waiting() == 2 })
	go func() { third <- db.AppendRecord(context.Background(), unlockRecord(7)) }()
	await.Until(t, "the third waits", func() bool { return db.Waiting() == 3 })
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

// A use case gets its turn on a full disk though records wait that the disk does not
// take: it may be what frees it.
func TestDB_fullDisk_useCasesGoFirst(t *testing.T) {
	db, _ := fresh(t)
	var failing atomic.Bool
	db.Watch(func(err error) { failing.Store(err != nil) })
	wrote := fillUp(t, db)
	if !failing.Load() {
		t.Error("the watcher did not hear of the full disk")
	}
	db.AppendLater(site.Record{Kind: site.KindLogin, Facts: site.Facts{Detail: strings.Repeat("x", 3000)}})
	if removed, err := db.Prune(t.Context(), journal.Retention{Held: math.MaxInt64}); err != nil || removed.Records != wrote {
		t.Errorf("removed %d, %v; want %d", removed, err, wrote)
	}
	await.Until(t, "the kept record is written", func() bool { return db.Latest() == uint64(wrote+1) })
	mustVerify(t, db, 1)
}

func TestDB_Read_newest(t *testing.T) {
	db, _ := fresh(t)
	for i := range 9 {
		r := unlockRecord(1 + i%2)
		if i%3 == 0 {
			r.Email = "porter@example.test"
		}
		if i == 4 {
			r.By = "porter@example.test"
		}
		if err := db.AppendRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		query journal.Query
		want  []uint64
	}{
		{journal.Query{Newest: true, Limit: 3}, []uint64{7, 8, 9}},
		{journal.Query{Newest: true, Limit: 3, BeforeSeq: 3}, []uint64{1, 2}},
		{journal.Query{Newest: true, Limit: 2, Station: 2}, []uint64{6, 8}},
		{journal.Query{Newest: true, Limit: 3, Account: "porter@example.test"}, []uint64{4, 5, 7}},
		{journal.Query{Limit: 2, BeforeSeq: 5, AfterSeq: 3}, []uint64{4}},
	} {
		var got []uint64
		for _, r := range mustRead(t, db, test.query) {
			got = append(got, r.Seq)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.query, got, test.want)
		}
	}
}

func TestDB_AppendLater_overflowIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := fresh(t)
		release := make(chan struct{})
		<-db.Hold(release)
		const over = 5
		for i := range sqlite.MaxKept + over {
			r := unlockRecord(1)
			r.Count = i + 1
			db.AppendLater(r)
		}
		close(release)
		await.Until(t, "the records are written", func() bool { return db.Kept() == 0 && db.Latest() == sqlite.MaxKept+1 })
		records := mustRead(t, db, journal.Query{Limit: 2})
		if records[0].Kind != site.KindRecordsLost || records[0].Count != over || records[1].Count != over+1 {
			t.Errorf("first records %+v: want the loss of %d and then the oldest kept", records, over)
		}
	})
}

// A use case whose caller is gone is not begun, however fast the disk is.
func TestDB_contextEndedBefore(t *testing.T) {
	db, _ := fresh(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	account := site.Account{ID: "a-1", Email: "porter@example.test"}
	for range 500 {
		err := db.Amend(ended, nil, []site.Amendment{{AddAccount: &account, Record: record(site.KindAccountAdded)}})
		if !fault.Is(err, fault.Timeout) {
			t.Fatalf("got %v, want a timeout", err)
		}
	}
	if all, err := db.LoadAccess(t.Context()); err != nil || len(all.Accounts) != 0 || db.Latest() != 0 {
		t.Errorf("accounts %v, %d records, %v: written for nobody", all.Accounts, db.Latest(), err)
	}
}

// endsAfterLook is a context that ends right after it was first asked whether it has.
type endsAfterLook struct {
	context.Context
	cancel context.CancelFunc
}

func (c endsAfterLook) Err() error {
	defer c.cancel()
	return c.Context.Err()
}

// A use case whose caller got a timeout is not written afterwards; a
// kept record is.
func TestDB_contextEndsBeforeTheDisk(t *testing.T) {
	db, _ := fresh(t)
	release := make(chan struct{})
	<-db.Hold(release)
	inner, cancel := context.WithCancel(t.Context())
	ctx := endsAfterLook{inner, cancel}
	account := site.Account{ID: "a-1", Email: "porter@example.test"}
	if err := db.Amend(ctx, nil, []site.Amendment{{AddAccount: &account, Record: record(site.KindAccountAdded)}}); !fault.Is(err, fault.Timeout) {
		t.Errorf("use case: got %v, want a timeout", err)
	}
	if err := db.Keep(ctx, unlockRecord(7)); !fault.Is(err, fault.Timeout) {
		t.Errorf("record: got %v, want a timeout", err)
	}
	close(release)
	await.Until(t, "the kept record is written all the same", func() bool { return db.Latest() == 1 })
	if records := mustRead(t, db, journal.Query{}); records[0].Station != 7 {
		t.Errorf("records %+v", records)
	}
	if all, err := db.LoadAccess(t.Context()); err != nil || len(all.Accounts) != 0 {
		t.Errorf("accounts %v, %v: written after the timeout", all.Accounts, err)
	}
}

// While a use case is under way, the end of its caller's time does not make its
// answer uncertain.
func TestDB_contextEndsWhileTheDiskWrites(t *testing.T) {
	db, _ := fresh(t)
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { answered <- db.Slow(ctx, cancel, release) }()
	<-ctx.Done()
	select {
	case err := <-answered:
		t.Errorf("answered %v before the disk did", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("%v, though it was written", err)
	}
}

// Records keep the order in which they were passed, with or without a waiting caller and
// however the disk fails: an outcome never comes before its intent.
func TestDB_Keep_orderOverAFailingDisk(t *testing.T) {
	db, _ := fresh(t)
	var log lockedLog
	db.LogTo(&log)
	refill := fillUp(t, db)
	for i := range 6 {
		r := site.Record{Kind: site.KindLogin, Facts: site.Facts{Count: i + 1, Detail: strings.Repeat("x", 4000)}}
		if i%2 == 1 {
			db.AppendLater(r)
		} else if err := db.Keep(t.Context(), r); !fault.Is(err, fault.Unavailable) {
			t.Errorf("record %d: %v, want unavailable", i+1, err)
		}
	}
	await.Until(t, "all wait", func() bool { return db.Kept() == 6 })
	if n := strings.Count(log.String(), "record kept in memory"); n != 6 {
		t.Errorf("%d of 6 records are in the system log", n)
	}
	if err := db.LimitPages(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all are written", func() bool { return db.Latest() == uint64(refill+6) })
	records := mustRead(t, db, journal.Query{AfterSeq: uint64(refill)})
	for i, r := range records {
		if r.Count != i+1 {
			t.Errorf("record %d in place %d", r.Count, i+1)
		}
	}
	if len(records) != 6 {
		t.Errorf("%d records, want each once", len(records))
	}
	mustVerify(t, db, refill+6)
	for i := range 6 {
		if n := strings.Count(log.String(), fmt.Sprintf("count=%d\n", i+1)); n > 1 || (n == 0 && i < 5) {
			t.Errorf("record %d is %d times in the system log", i+1, n)
		}
	}
}

// fillUp makes the disk full and says how many records it took.
func fillUp(t *testing.T, db *sqlite.DB) (wrote int) {
	t.Helper()
	if err := db.LimitPages(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for ; ; wrote++ {
		err := db.AppendRecord(t.Context(), unlockRecord(1))
		if fault.Is(err, fault.Unavailable) {
			return wrote
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What a full disk did not take is not lost in silence when the database is closed.
func TestDB_Close_whileTheDiskFails(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "gatehouse.db"), newClock())
	var log bytes.Buffer
	db.LogTo(&log)
	fillUp(t, db)
	for i := range 5 {
		db.AppendLater(site.Record{Kind: site.KindLogin, Facts: site.Facts{Count: i + 1, Detail: strings.Repeat("x", 4000)}})
	}
	if err := db.Close(); err == nil || !strings.Contains(err.Error(), "5 records") {
		t.Errorf("closed with %v, want an error that counts 5 records", err)
	}
	db.AppendLater(site.Record{Kind: site.KindLogin, Facts: site.Facts{Count: 6}}) // comes too late
	for i := range 6 {
		if n := strings.Count(log.String(), fmt.Sprintf("count=%d\n", i+1)); n != 1 {
			t.Errorf("record %d is %d times in the system log, want once", i+1, n)
		}
	}
}

// Of a disk that hangs Close lets go.
func TestDB_Close_whileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, filepath.Join(t.TempDir(), "gatehouse.db"), newClock())
		release := make(chan struct{})
		<-db.Hold(release)
		db.AppendLater(unlockRecord(1))
		if err := db.Close(); err == nil || !strings.Contains(err.Error(), "1 records") {
			t.Errorf("closed with %v", err)
		}
		close(release)
		<-db.Stopped()
		if err := db.ClosePools(); err != nil {
			t.Error(err)
		}
	})
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
	if err := db.AppendRecord(t.Context(), unlockRecord(1)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after Close: %v, want unavailable", err)
	}
	alone := filepath.Join(t.TempDir(), "copy.db") // the file without those beside it
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(alone, data, 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := sqlite.Files{}.Verify(t.Context(), alone)
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

// While the disk hangs, every caller that waits for a record is answered, every record is in the
// system log once, and the watcher hears of it; once the disk answers, all are written.
func TestDB_diskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := fresh(t)
		var log lockedLog
		db.LogTo(&log)
		heard := make(chan error, 100)
		db.Watch(func(err error) { heard <- err })
		release := make(chan struct{})
		held := db.Hold(release)
		<-held
		db.AppendLater(commandRecord("c-before"))
		if err := db.Keep(t.Context(), commandRecord("c-waits")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("who waits for a record hears %v", err)
		}
		if err := <-heard; !fault.Is(err, fault.Unavailable) {
			t.Errorf("the watcher hears %v", err)
		}
		db.AppendLater(commandRecord("c-after"))
		if err := db.Keep(t.Context(), commandRecord("c-next")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("who comes later hears %v", err)
		}
		for _, id := range []string{"c-before", "c-waits", "c-after", "c-next"} {
			if n := strings.Count(log.String(), "command="+id); n != 1 {
				t.Errorf("%s is in the system log %d times", id, n)
			}
		}
		close(release)
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for err := range heard {
			if err == nil {
				break
			}
		}
		records, err := db.Read(t.Context(), journal.Query{})
		if err != nil || len(records) != 4 {
			t.Errorf("%d records, %v", len(records), err)
		}
		db.AppendLater(commandRecord("c-well"))
		if err := db.Flush(t.Context()); err != nil || strings.Contains(log.String(), "c-well") {
			t.Errorf("a record is logged though the disk works again: %v", err)
		}
	})
}

// A record is logged while the transaction that it is part of hangs.
func TestDB_diskHangs_inTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := fresh(t)
		var log lockedLog
		db.LogTo(&log)
		first, second := make(chan struct{}), make(chan struct{})
		<-db.Hold(first)
		db.AppendLater(commandRecord("c-written"))
		held := db.Hold(second)
		await.Until(t, "both wait", func() bool { return db.Waiting() == 1 })
		close(first)
		<-held
		await.Until(t, "the record is logged", func() bool { return strings.Contains(log.String(), "command=c-written") })
		close(second)
		if err := db.Flush(t.Context()); err != nil || db.Latest() != 1 {
			t.Errorf("latest %d, %v", db.Latest(), err)
		}
		mustVerify(t, db, 1)
	})
}

func commandRecord(id site.CommandID) site.Record {
	return site.Record{Kind: site.KindUnlock, Facts: site.Facts{Command: id}}
}

// lockedLog is a log that several goroutines may write to.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The last run is the one that wrote the newest record, also where this one has written
// more since.
func TestDB_LastRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	for _, run := range []struct{ boot, last site.BootID }{{"first", ""}, {"second", "first"}, {"third", "second"}} {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: run.boot, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		db.UseClock(newClock())
		if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
			t.Error(err)
		}
		if db.LastRun() != run.last {
			t.Errorf("before %s ran %q, want %q", run.boot, db.LastRun(), run.last)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
