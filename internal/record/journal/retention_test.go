package journal_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/record/journal"
)

func TestService_Prune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newService(t, func(c *journal.Config) {
			c.MaxAge, c.MaxSize, c.HardSize = time.Hour, 1000, 2000
			c.Held = func() uint64 { return 42 }
		})
		if removed, err := p.Prune(t.Context()); err != nil || removed.Records != 3 {
			t.Errorf("%+v, %v", removed, err)
		}
		if got := p.disk.pruned; !got.Before.Equal(time.Now().Add(-time.Hour)) || got.MaxBytes != 1000 || got.HardBytes != 2000 || got.Held != 42 {
			t.Errorf("pruned by %+v", got)
		}
		p = newService(t, nil)
		if _, err := p.Prune(t.Context()); err != nil || !p.disk.pruned.Before.IsZero() {
			t.Errorf("without an age pruned by %+v, %v", p.disk.pruned, err)
		}
		p = newService(t, func(c *journal.Config) { c.MaxAge, c.Clock = time.Hour, clock{} })
		if _, err := p.Prune(t.Context()); err != nil {
			t.Error(err)
		}
		if got := p.disk.pruned; !got.Before.IsZero() || got.MaxBytes != math.MaxInt64 || got.HardBytes != math.MaxInt64 || got.Held != math.MaxInt64 {
			t.Errorf("under an untrusted clock pruned by %+v: no record may age", got)
		}
	})
}

// A hard size that is smaller is none: the journal may become as large as without it.
func TestService_SetRetention(t *testing.T) {
	p := newService(t, nil)
	for _, c := range []struct{ most, hard, wantMost, wantHard int64 }{
		{1000, 3000, 1000, 3000}, {1000, 500, 1000, 1000}, {1000, 0, 1000, math.MaxInt64}, {0, 3000, math.MaxInt64, math.MaxInt64},
	} {
		p.SetRetention(time.Hour, c.most, c.hard)
		if _, err := p.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.disk.pruned; got.MaxBytes != c.wantMost || got.HardBytes != c.wantHard {
			t.Errorf("%+v: pruned by %+v", c, got)
		}
	}
}

func TestService_Run_prunesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newService(t, func(c *journal.Config) { c.MaxSize = 1000 })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		<-time.After(2*time.Hour + time.Second)
		p.disk.bytes.Store(1101)
		<-time.After(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := strings.Count(p.log.String(), "old records removed"); n != 4 {
			t.Errorf("pruned %d times in two hours and once the journal was too large, want 4", n)
		}
	})
}

// A journal that is too large only by what is held does not keep the processor and the
// disk busy, whatever is written; the hard size, and what the cloud has taken, do count.
func TestService_Run_doesNotSpin(t *testing.T) {
	for name, c := range map[string]struct {
		bytes   int64
		held    uint64
		removed int // each time
		want    int // in ten minutes
	}{
		"all is held":                 {1900, 0, 0, 1},
		"little was delivered":        {1900, 1000, 1, 1},
		"beyond the hard size":        {2001, 0, 5, 10},
		"the same, but nothing goes":  {2001, 0, 0, 10},
		"much was delivered":          {1900, 1001, 5, 10},
		"the same, and nothing goes":  {1900, 1001, 0, 10},
		"no larger than it ought":     {1100, math.MaxInt64, 5, 1},
		"as large as it may be ever,": {2000, 999, 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newService(t, func(cfg *journal.Config) {
					cfg.MaxSize, cfg.HardSize = 1000, 2000
					cfg.Held = func() uint64 { return c.held }
				})
				p.disk.bytes.Store(c.bytes)
				p.disk.removed = journal.Removed{Records: c.removed}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.Run(ctx) }()
				<-time.After(30 * time.Second)
				for range 9 {
					p.disk.bytes.Store(c.bytes)
					<-time.After(time.Minute)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if n := p.disk.prunes; n != c.want {
					t.Errorf("pruned %d times, want %d", n, c.want)
				}
			})
		})
	}
}

func TestService_Run_tellsOfTheGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newService(t, nil)
		p.disk.removed = journal.Removed{Records: 9, Undelivered: 4}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || !strings.Contains(p.log.String(), `level=ERROR msg="records removed that the cloud had not taken; the journal reached its hard size" removed=4`) {
			t.Errorf("%v: %s", err, p.log)
		}
	})
}

// Retention that removes nothing is silent, and one that fails is logged, unless the
// gateway stops.
func TestService_Run_logs(t *testing.T) {
	for name, c := range map[string]struct {
		removed journal.Removed
		err     error
		stopped bool
		want    string
	}{
		"nothing to remove": {},
		"a failing disk":    {err: errors.New("the disk"), want: "retention did not finish"},
		"stopped":           {err: errors.New("the disk"), stopped: true},
		"some":              {removed: journal.Removed{Records: 1}, want: "old records removed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newService(t, nil)
				p.disk.removed, p.disk.pruning = c.removed, c.err
				ctx, cancel := context.WithCancel(t.Context())
				if c.stopped {
					p.disk.heard = func(error) { cancel() }
				}
				done := make(chan error)
				go func() { done <- p.Run(ctx) }()
				synctest.Wait()
				cancel()
				<-done
				if log := p.log.String(); (log != "") != (c.want != "") || !strings.Contains(log, c.want) || strings.Contains(log, "cloud") {
					t.Errorf("logged %q, want %q", log, c.want)
				}
			})
		})
	}
}

// What waits for the cloud is a condition from four fifths of the hard size on, until it
// is less than seven tenths.
func TestService_backlog(t *testing.T) {
	var held atomic.Uint64
	p := newService(t, func(c *journal.Config) {
		c.MaxSize, c.HardSize, c.Held = 1000, 10_000, held.Load
	})
	p.disk.oldest = 1001 // of 5000
	for i, c := range []struct {
		bytes int64
		held  uint64
		want  bool
	}{
		{7999, 0, false},
		{8000, 0, true},
		{7001, 0, true},
		{6999, 1000, false},
		{7999, 1000, false},
		{9000, 900, true},
		{9000, 2000, false}, // 6750 wait
		{9000, 1500, false}, // 7875
		{9000, 1200, true},  // 8550
		{9000, 1500, true},
		{9000, 5000, false},
		{9000, math.MaxInt64, false}, // there is no cloud link any more
		{9000, 4999, false},
	} {
		p.disk.bytes.Store(c.bytes)
		held.Store(c.held)
		p.disk.heard(nil)
		all := p.health.Conditions()
		if is := len(all) == 1 && all[0].Code == health.CloudBacklog && all[0].Severity == health.Warning; is != c.want || len(all) > 1 {
			t.Errorf("%d: %+v: conditions %+v", i, c, all)
		}
	}
	p.disk.oldest = 5000 // one record is left, and waits
	held.Store(4999)
	p.disk.heard(nil)
	if all := p.health.Conditions(); len(all) != 1 {
		t.Errorf("of one record: conditions %+v", all)
	}
	// Without a cloud link, and without a bound, there is no backlog.
	for _, change := range []func(*journal.Config){
		func(c *journal.Config) { c.MaxSize, c.HardSize = 1000, 10_000 },
		func(c *journal.Config) { c.Held = func() uint64 { return 0 } },
	} {
		p := newService(t, change)
		p.disk.bytes.Store(1 << 50)
		p.disk.heard(nil)
		if all := p.health.Conditions(); len(all) > 0 {
			t.Errorf("conditions %+v", all)
		}
	}
}
