package cloudlink_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloudlink"
	"gatehouse/internal/health"
	"gatehouse/internal/host"
	"gatehouse/internal/site"
	"gatehouse/internal/sqlite"
)

// board is a machine without a battery-backed clock: after a power cut its time begins
// long ago, and no time server answers any more.
type board struct {
	mu   sync.Mutex // mu guards lost
	lost bool       // whether the power was cut
}

func (b *board) Synchronised() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost
}

func (b *board) Wall(now time.Time) time.Time {
	if b.Synchronised() {
		return now
	}
	return now.AddDate(-1, 0, 0)
}

// process is one run of the process on the board, with the clock and the database that a
// gateway has.
type process struct {
	*cloudlink.Commands
	path  string
	db    *sqlite.DB
	clock *host.Clock
	end   func()
}

func (b *board) start(t *testing.T, w *world, path string) *process {
	t.Helper()
	r := &process{path: path}
	log := slog.New(slog.DiscardHandler)
	var err error
	if r.db, err = sqlite.Open(t.Context(), sqlite.Config{Path: path, Boot: "b", Logger: log}); err != nil {
		t.Fatal(err)
	}
	floor, err := r.db.Floor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.clock, err = host.NewClock(host.ClockConfig{Floor: floor, Save: r.db.SaveFloor, Logger: log, Health: &health.Registry{}, System: b})
	if err != nil {
		t.Fatal(err)
	}
	r.db.UseClock(r.clock)
	cfg := w.config()
	cfg.Store, cfg.Clock = r.db, r.clock
	if r.Commands, err = cloudlink.NewCommands(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r.Trust(keyring(t, w.key.Public()))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.clock.Run(ctx) })
	running.Go(func() { r.Run(ctx) })
	r.end = func() {
		cancel()
		running.Wait()
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	}
	r.append(t, site.KindStarted)
	return r
}

func (r *process) append(t *testing.T, kind site.Kind) {
	t.Helper()
	if err := r.db.AppendRecord(t.Context(), site.Record{Kind: kind}); err != nil {
		t.Fatal(err)
	}
}

// cut ends the run by a power cut, and gives the path of what that leaves.
func (r *process) cut(t *testing.T, b *board) string {
	t.Helper()
	left := filepath.Join(t.TempDir(), "gatehouse.db")
	for _, part := range []string{"", "-wal"} {
		text, err := os.ReadFile(r.path + part)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left+part, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.end()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = true
	return left
}

// An id is forgotten by a time that the disk is sure of: so the next runs must not begin
// before it, or the command holds again, and whoever kept it opens the door a second time.
func TestCommands_run_forgets_byAFloorThatStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := &board{}
		r := b.start(t, w, filepath.Join(t.TempDir(), "gatehouse.db"))
		<-time.After(2 * time.Minute)
		token := w.sign(w.good("c-1"))
		r.Handle(t.Context(), token, false, time.Now())
		synctest.Wait()
		<-time.After(3 * time.Minute)
		r.append(t, site.KindLockChanged)
		before, _ := r.db.Floor(t.Context())
		<-time.After(2 * time.Minute)
		if left, err := r.db.TakenCommands(t.Context()); err != nil || len(left) != 0 || w.unlocks() != 1 {
			t.Fatalf("%d unlocks, not forgotten: %v, %v", w.unlocks(), left, err)
		}
		r = b.start(t, w, r.cut(t, b)) // and its first record is not trusted
		r = b.start(t, w, r.cut(t, b))
		if now := r.clock.Now(); now.Before(before) {
			t.Errorf("the clock reads %s, and %s was sure", now, before)
		}
		<-time.After(2 * time.Minute)
		r.Handle(t.Context(), token, false, time.Now())
		synctest.Wait()
		if w.unlocks() != 1 {
			t.Errorf("one command opened %d times", w.unlocks())
		}
		r.end()
	})
}
