package machine_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/health"
)

// The system is set back while another goroutine reads the clock: no later reading is
// earlier, although the clock runs slower from before the first one.
func TestClock_Now_neverGoesBack(t *testing.T) {
	m := &slowMachine{}
	c := m.clock(t)
	m.during = func() {
		begin := c.Now()
		for m.last = c.Now(); m.last.Sub(begin) < 5*time.Millisecond; m.last = c.Now() {
			continue
		}
	}
	machine.Check(c)
	if now := c.Now(); now.Before(m.last) {
		t.Errorf("the clock went back by %s", m.last.Sub(now))
	}
}

// slowMachine is five seconds behind its first answer; callers wait for it.
type slowMachine struct {
	during func()
	last   time.Time
}

func (m *slowMachine) Synchronised() bool { return m.during != nil }

func (m *slowMachine) Wall(now time.Time) time.Time {
	if m.during == nil {
		return now
	}
	m.during()
	return stepped(now, -5*time.Second)
}

func (m *slowMachine) clock(t *testing.T) *machine.Clock {
	t.Helper()
	c, err := machine.NewClock(machine.ClockConfig{
		Save:   func(context.Context, time.Time) error { return nil },
		Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{}, System: m,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Many read while the system's clock is stepped to and fro.
func TestClock_Now_concurrently(t *testing.T) {
	r := &rig{T: t}
	c := r.start(time.Now().Add(time.Second))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := c.Now(); ; {
				select {
				case <-stop:
					return
				default:
				}
				now := c.Now()
				if now.Round(0).Before(last.Round(0)) {
					t.Errorf("%s came after %s", now, last)
				}
				last = now
			}
		})
	}
	for i := range 2000 {
		r.set(time.Duration(i%7-3)*time.Second+time.Duration(i/100)*time.Second, i%5 != 0)
		machine.Check(c)
	}
	close(stop)
	readers.Wait()
}

func BenchmarkClock_Now(b *testing.B) {
	c, err := machine.NewClock(machine.ClockConfig{
		Save:   func(context.Context, time.Time) error { return nil },
		Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = c.Now()
		}
	})
}
