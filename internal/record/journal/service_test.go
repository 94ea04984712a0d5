package journal_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// disk is a Store whose disk the test governs.
type disk struct {
	journal.Store // what is not overridden is not called

	mu      sync.Mutex
	written []site.Record
	kept    []site.Record
	err     error // of each try
	late    error // an earlier failure, which the next caller of Keep hears after a success
	stall   chan struct{}
	heard   func(error)
	bytes   atomic.Int64
	oldest  uint64
	pruned  journal.Retention
	prunes  int
	removed journal.Removed // by each Prune
	pruning error           // of each Prune
}

func (d *disk) Watch(heard func(error)) { d.heard = heard }
func (d *disk) Latest() uint64          { return 5000 }
func (d *disk) Kept() int               { return len(d.kept) }

func (d *disk) Bytes() int64    { return d.bytes.Load() }
func (d *disk) Evidence() int64 { return 0 }
func (d *disk) Oldest() uint64  { return d.oldest }

func (d *disk) Flush(context.Context) error {
	d.written, d.kept = append(d.written, d.kept...), nil
	return nil
}

func (d *disk) Read(context.Context, journal.Query) ([]site.Record, error) { return d.written, nil }

func (d *disk) Keep(ctx context.Context, r site.Record) error {
	d.mu.Lock()
	stall, err := d.stall, d.err
	d.mu.Unlock()
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return fault.Wrap(fault.Timeout, "slow", ctx.Err())
		}
	}
	if err == nil {
		d.written = append(d.written, r)
	}
	d.heard(err)
	if late := d.late; late != nil {
		d.late = nil
		return late
	}
	return err
}

func (d *disk) AppendLater(r site.Record) { d.kept = append(d.kept, r) }

func (d *disk) Prune(_ context.Context, r journal.Retention) (journal.Removed, error) {
	d.pruned = r
	d.prunes++
	if d.removed.Records > 0 {
		d.bytes.Store(0)
	}
	d.heard(nil) // as a transaction does
	return d.removed, d.pruning
}

type clock struct{ trusted bool }

func (clock) Now() time.Time  { return time.Now() }
func (c clock) Trusted() bool { return c.trusted }

type parts struct {
	*journal.Service
	disk   *disk
	health *health.Registry
	log    *bytes.Buffer
}

func newService(t *testing.T, change func(*journal.Config)) parts {
	t.Helper()
	p := parts{disk: &disk{oldest: 1, removed: journal.Removed{Records: 3}}, health: &health.Registry{}, log: &bytes.Buffer{}}
	cfg := journal.Config{
		Store: p.disk, Clock: clock{trusted: true}, Logger: slog.New(slog.NewTextHandler(p.log, nil)),
		Health: p.health, Metrics: metric.New(),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := journal.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Service = s
	return p
}

func intent(id site.CommandID) site.Record {
	return site.Record{Kind: site.KindUnlock, Facts: site.Facts{Command: id, Station: 1042, Outcome: site.Requested}}
}

func TestService_Intend_durable(t *testing.T) {
	p := newService(t, nil)
	p.Intend(intent("c-1"))
	if len(p.disk.written) != 1 || len(p.health.Conditions()) != 0 || p.log.Len() != 0 {
		t.Errorf("written %v, conditions %v, log %s", p.disk.written, p.health.Conditions(), p.log)
	}
}

// While the disk fails the gateway says that it is degraded but ready; no record is
// given to the store twice; once the disk works, all ends.
func TestService_Intend_diskFails(t *testing.T) {
	p := newService(t, nil)
	p.disk.err = fault.New(fault.Unavailable, "full")
	if p.Intend(intent("c-1")) || len(p.disk.kept) != 0 {
		t.Error("a record that the store keeps was given to it again, or counts as durable")
	}
	if c := p.health.Conditions(); len(c) != 1 || c[0].Code != health.StorageFailing || len(p.health.NotReady()) != 0 {
		t.Errorf("conditions %+v, not ready %v", c, p.health.NotReady())
	}
	p.disk.err = nil
	p.disk.heard(nil)
	if !p.Intend(intent("c-2")) || len(p.disk.written) != 1 || len(p.health.Conditions()) != 0 {
		t.Errorf("after the disk came back: written %v, conditions %v", p.disk.written, p.health.Conditions())
	}
}

// A caller that runs late, and so hears of a failure after the disk works again, changes
// nothing for the next one: its record is durable before its command leaves.
func TestService_Intend_lateCaller(t *testing.T) {
	p := newService(t, nil)
	p.disk.late = fault.New(fault.Unavailable, "the disk did not answer")
	p.Intend(intent("c-1"))
	if !p.Intend(intent("c-2")) || len(p.disk.written) != 2 || len(p.health.Conditions()) != 0 {
		t.Errorf("written %v, kept %v, conditions %v", p.disk.written, p.disk.kept, p.health.Conditions())
	}
}

// A disk that is slow costs an unlock its patience at most.
func TestService_Intend_diskSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newService(t, nil)
		p.disk.stall = make(chan struct{})
		begun := time.Now()
		p.Intend(intent("c-1"))
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("waited %s, want the patience of 2 s", took)
		}
		if len(p.disk.kept) != 0 || !strings.Contains(p.log.String(), "command=c-1") {
			t.Error("the record that is queued behind the disk was queued twice, or is not in the system log")
		}
	})
}

// Who reads the journal sees what was answered a moment before.
func TestService_Read_flushes(t *testing.T) {
	p := newService(t, nil)
	p.AppendLater(intent("c-1"))
	if records, err := p.Read(t.Context(), journal.Query{}); err != nil || len(records) != 1 {
		t.Errorf("%v, %v", records, err)
	}
}

func TestService_Subscribe(t *testing.T) {
	p := newService(t, nil)
	wake, cancel := p.Subscribe()
	p.Intend(intent("c-1"))
	p.Intend(intent("c-2")) // the channel is full; nobody blocks
	<-wake
	cancel()
	p.Intend(intent("c-3"))
	select {
	case <-wake:
		t.Error("woken after cancel")
	default:
	}
}

// lookedThrough is a Store that notes what it was asked for.
type lookedThrough struct {
	journal.Store
	asked []any
}

func (l *lookedThrough) Recent(_ context.Context, most, within int, span time.Duration) ([]site.Record, error) {
	l.asked = []any{most, within, span}
	return nil, nil
}

// The span is what the caller wants, the bounds are those of a quick start.
func TestService_RecentUnlocks(t *testing.T) {
	p := newService(t, nil)
	store := &lookedThrough{}
	p.Store = store
	if _, err := p.RecentUnlocks(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if want := []any{2000, 20_000, time.Hour}; !slices.Equal(store.asked, want) {
		t.Errorf("asked for %v, want %v", store.asked, want)
	}
}

func TestNew_incomplete(t *testing.T) {
	if _, err := journal.New(journal.Config{}); err == nil {
		t.Error("a journal without a store was made")
	}
}
