package machine_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

var _ site.Clock = (*machine.Clock)(nil)

func TestStepped(t *testing.T) {
	now := time.Now()
	out := stepped(now, time.Hour)
	if out.Sub(now) != 0 || out.Round(0).Sub(now.Round(0)) != time.Hour {
		t.Fatal("time.Time is laid out otherwise; the tests of the clock prove nothing")
	}
}

func TestClock_synchronisedFromTheStart(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now().Add(-time.Hour))
		r.is(0, true)
		if !slices.Equal(r.steps, []time.Duration{0}) { // it became trusted, without a jump
			t.Errorf("steps: %v", r.steps)
		}
	})
}

func TestClock_startsAtTheFloor(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Now().Add(time.Hour))
		r.is(time.Hour, false, health.ClockUntrusted)
		r.pass(time.Minute)
		r.is(time.Hour, false, health.ClockUntrusted)
	})
}

func TestClock_withoutFloorStartsAtTheSystem(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Time{})
		r.is(0, false, health.ClockUntrusted)
	})
}

// A board without a battery: days behind until the time server answers.
func TestClock_stepsForwardWhenSynchronised(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Now().Add(time.Hour)) // the floor is an hour ahead of a clock that stood still
		r.pass(time.Minute)
		before := r.Now()
		r.set(500*time.Hour, true)
		r.is(time.Hour, false, health.ClockUntrusted)
		r.pass(10 * time.Second)
		r.is(500*time.Hour, true)
		if len(r.steps) != 1 || r.steps[0] != 499*time.Hour {
			t.Errorf("steps: %v, want 499 hours once", r.steps)
		}
		if !r.Now().After(before) {
			t.Error("the step went back by the monotonic reading")
		}
	})
}

// The same with the real monotonic clock, which knows of no step.
func TestClock_stepsForwardByTheWallClock(t *testing.T) {
	r := &rig{T: t}
	c := r.start(time.Time{})
	before := c.Now()
	r.set(time.Hour, true)
	machine.Check(c)
	after := c.Now()
	if ahead := after.Round(0).Sub(before.Round(0)); ahead < time.Hour {
		t.Errorf("the clock went %s forward, want an hour", ahead)
	}
	if d := after.Sub(before); d < 0 || d >= time.Hour {
		t.Errorf("by the monotonic clock %s passed", d)
	}
	if d := time.Until(after); d > 0 || d <= -time.Hour { // real time: no machine takes an hour between two lines
		t.Errorf("the monotonic reading is %s off", d)
	}
	r.set(-time.Hour, true)
	machine.Check(c)
	if c.Trusted() || c.Now().Sub(after) < 0 {
		t.Error("the clock was put back two hours")
	}
}

// The date of an unsynchronised system is set.
func TestClock_ignoresUnsynchronisedSteps(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Time{})
		for _, offset := range []time.Duration{1000 * time.Hour, -1000 * time.Hour} {
			r.set(offset, false)
			r.pass(time.Minute)
			r.is(0, false, health.ClockUntrusted)
		}
		if len(r.steps) != 0 || len(r.floors()) != 0 {
			t.Errorf("steps %v, saved %v", r.steps, r.floors())
		}
	})
}

// The system is put back by a little: the clock never goes back, and loses the
// lead by one part in a hundred.
func TestClock_losesASmallLead(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Time{})
		r.set(-3*time.Second, true)
		r.pass(10 * time.Second)
		r.is(0, true)
		r.pass(100 * time.Second)
		r.is(-time.Second, true)
		r.pass(200 * time.Second)
		r.is(-3*time.Second, true)
		r.pass(time.Hour)
		r.is(-3*time.Second, true)
		if !slices.Equal(r.steps, []time.Duration{0}) { // it became trusted, without a jump
			t.Errorf("steps: %v", r.steps)
		}
	})
}

// The floor is far ahead of a system that is sure of its time: the clock does not
// go back, but nor does it vouch for its time, and the floor moves no further.
func TestClock_farAhead(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now().Add(48 * time.Hour))
		r.is(48*time.Hour, false, health.ClockAhead)
		r.pass(time.Hour)
		r.is(48*time.Hour, false, health.ClockAhead)
		if len(r.floors()) != 0 {
			t.Errorf("the floor was moved: %v", r.floors())
		}
		r.pass(30 * time.Minute)
		r.set(48*time.Hour, true)
		r.pass(10 * time.Second)
		r.is(48*time.Hour, true)
	})
}

func TestClock_trustIsLostAndRegained(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Time{})
		r.set(0, false)
		r.pass(10 * time.Second)
		r.is(0, false, health.ClockUntrusted)
		r.set(0, true)
		r.pass(10 * time.Second)
		r.is(0, true)
	})
}

// A jump while the clock is trusted is followed, but nothing is rebased by it.
func TestClock_stepsForwardWhileTrusted(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Time{})
		r.set(time.Hour, true)
		r.pass(10 * time.Second)
		r.is(time.Hour, true)
		if !slices.Equal(r.steps, []time.Duration{0}) { // it became trusted, without a jump
			t.Errorf("steps: %v", r.steps)
		}
	})
}

func TestClock_savesTheFloor(t *testing.T) {
	within(t, func(r *rig) {
		start := time.Now()
		r.run(time.Time{})
		r.pass(time.Hour)
		if len(r.floors()) != 0 {
			t.Fatalf("an unsure time was saved: %v", r.floors())
		}
		r.set(0, true)
		r.pass(10 * time.Second)
		if len(r.floors()) != 1 || r.floors()[0].Sub(start) != time.Hour+10*time.Second {
			t.Fatalf("saved %v when the clock became sure", r.floors())
		}
		r.pass(time.Hour)
		if len(r.floors()) != 7 {
			t.Errorf("saved %d times within an hour, want once and every ten minutes", len(r.floors()))
		}
		r.mu.Lock()
		r.saveErr = errors.New("disk full")
		r.mu.Unlock()
		r.pass(time.Hour)
		r.is(0, true)
	})
}

// A disk that hangs keeps the clock from nothing: it is still judged.
func TestClock_judgedWhileTheDiskHangs(t *testing.T) {
	within(t, func(r *rig) {
		disk := make(chan struct{})
		defer close(disk)
		r.set(0, true)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		c, err := machine.NewClock(machine.ClockConfig{
			Save:   func(context.Context, time.Time) error { <-disk; return nil },
			Logger: slog.New(slog.DiscardHandler), Health: &r.conditions, System: r,
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = c.Run(ctx) }()
		r.pass(time.Minute)
		r.set(0, false)
		r.pass(time.Minute)
		if c.Trusted() {
			t.Error("the loss of the time service was not noticed")
		}
	})
}

func TestClock_savesTheFloorAtTheEnd(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		ctx, cancel := context.WithCancel(r.Context())
		c, err := machine.NewClock(machine.ClockConfig{
			Save: func(ctx context.Context, now time.Time) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return r.save(ctx, now)
			},
			Logger: slog.New(slog.DiscardHandler), Health: &r.conditions, System: r,
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		r.pass(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
		if saved := r.floors(); len(saved) != 2 || saved[1].Sub(saved[0]) != time.Minute {
			t.Errorf("saved %v, want at the start and at the end", saved)
		}
	})
}

// When the clock loses trust, the last time that was sure is saved at once. From there
// on what has passed is counted, less the one percent by which this machine's own clock
// may be fast, and the system's time is not asked.
func TestClock_savesTheFloorWhenTrustIsLost(t *testing.T) {
	within(t, func(r *rig) {
		start := time.Now()
		r.set(0, true)
		r.run(time.Time{})
		r.pass(5 * time.Minute)
		r.set(0, false)
		r.pass(10 * time.Second)
		if saved := r.floors(); len(saved) != 2 || saved[1].Sub(start) != 5*time.Minute+9900*time.Millisecond {
			t.Errorf("saved %v, want the start and five minutes later", saved)
		}
		r.set(1000*time.Hour, false)
		r.pass(time.Hour)
		if saved := r.floors(); len(saved) != 8 || saved[7].Sub(start) > time.Hour+5*time.Minute || saved[7].Sub(start) < 53*time.Minute {
			t.Errorf("saved %v without trust", saved)
		}
	})
}

// Time continues over the restarts of a board without a time server: what has expired
// in one run is expired in the next.
func TestClock_untrustedTimeGoesOn(t *testing.T) {
	within(t, func(r *rig) {
		floor := time.Now().Add(1000 * time.Hour)
		for range 3 {
			ctx, cancel := context.WithCancel(r.Context())
			c := r.start(floor)
			began := c.Now()
			if began.Before(floor) {
				t.Errorf("it starts at %s, below the floor %s", began, floor)
			}
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			r.pass(5 * time.Hour)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			saved := r.floors()
			if floor = saved[len(saved)-1]; floor.Sub(began) < 4*time.Hour || floor.After(c.Now()) {
				t.Errorf("five hours after %s saved %s", began, floor)
			}
		}
	})
}

// A time that the system itself takes back within seconds is not saved for ever.
func TestClock_savesNoTimeThatWasTakenBack(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Time{})
		r.pass(time.Minute)
		r.set(500*time.Hour, true)
		r.pass(10 * time.Second)
		r.set(0, true)
		r.pass(time.Hour)
		r.is(500*time.Hour, false, health.ClockAhead)
		if saved := r.floors(); len(saved) != 1 {
			t.Errorf("saved %v, want the start alone", saved)
		}
	})
}

// The date is set just before the floor is saved: the system does not vouch for
// it, and has not been asked yet.
func TestClock_savesNoTimeThatWasNotChecked(t *testing.T) {
	within(t, func(r *rig) {
		start := time.Now()
		r.set(0, true)
		ctx, cancel := context.WithCancel(r.Context())
		c := r.start(time.Time{})
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		r.pass(time.Minute + 5*time.Second)
		r.set(1000*time.Hour, false)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if saved := r.floors(); len(saved) != 2 || saved[1].Sub(start) != time.Minute+4950*time.Millisecond {
			t.Errorf("saved %v, want the start and a little more than a minute later", saved)
		}
	})
}

func TestNewClock_incomplete(t *testing.T) {
	if _, err := machine.NewClock(machine.ClockConfig{}); err == nil {
		t.Error("a clock without anything was made")
	}
}
