package machine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

const years = 365 * 24 * time.Hour

// One forged answer of a time server moves nothing: neither the clock, nor the floor.
func TestClock_doubtsAStepOfYears(t *testing.T) {
	within(t, func(r *rig) {
		start := time.Now()
		r.set(0, true)
		r.run(start.Add(-time.Hour))
		r.pass(time.Minute)
		r.set(14*years, true)
		r.pass(23 * time.Hour)
		r.is(0, false, health.ClockStep)
		if s := r.Status(); s.Believed.Sub(s.System.Time) > time.Hour+time.Minute || s.Believed.Before(s.System.Time) || s.Why == "" || s.Advice == "" {
			t.Errorf("it will be believed at %s, now it is %s: %q %q", s.Believed, s.System, s.Why, s.Advice)
		}
		r.set(0, true)
		r.pass(time.Minute)
		r.is(0, true)
		for _, floor := range r.floors() {
			if floor.Sub(start) > 24*time.Hour {
				t.Errorf("the floor was raised to %s", floor)
			}
		}
	})
}

// It is not followed at a start either, whether or not the system vouches for it.
func TestClock_doubtsAStepAtTheStart(t *testing.T) {
	for _, sync := range []bool{true, false} {
		within(t, func(r *rig) {
			r.set(14*years, sync)
			r.run(time.Now())
			if ahead := time.Until(r.Now()); ahead != 0 || r.Trusted() {
				t.Errorf("the clock starts %s ahead, trusted %t", ahead, r.Trusted())
			}
		})
	}
}

// A board that was stored for months: the time holds, and is believed after a day, not before.
func TestClock_believesAStepThatHasStood(t *testing.T) {
	within(t, func(r *rig) {
		r.set(years, true)
		r.run(time.Now())
		r.pass(24*time.Hour - time.Second)
		r.is(0, false, health.ClockStep)
		r.pass(11 * time.Second)
		r.is(years, true)
		if !slices.Equal(r.steps, []time.Duration{years}) {
			t.Errorf("steps: %v", r.steps)
		}
	})
}

// A time that jumps about has not stood, and one that loses its time server neither.
func TestClock_beginsToCountAnew(t *testing.T) {
	for name, disturb := range map[string]func(*rig){
		"moved":          func(r *rig) { r.set(years+2*time.Second, true) },
		"unsynchronised": func(r *rig) { r.set(years, false); r.pass(time.Minute); r.set(years, true) },
	} {
		within(t, func(r *rig) {
			r.set(years, true)
			r.run(time.Now())
			r.pass(20 * time.Hour)
			disturb(r)
			r.pass(20 * time.Hour)
			if r.Trusted() {
				t.Errorf("%s: believed too early", name)
			}
			r.pass(4*time.Hour + 20*time.Second)
			if !r.Trusted() {
				t.Errorf("%s: not believed", name)
			}
		})
	}
}

// Many small steps reach no further than one large one.
func TestClock_doubtsManySmallSteps(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now())
		for offset := time.Duration(0); offset < years; offset += 20 * 24 * time.Hour {
			r.set(offset, true)
			r.pass(10 * time.Second)
		}
		if ahead := time.Until(r.Now()); ahead > 30*24*time.Hour {
			t.Errorf("small steps led %s ahead", ahead)
		}
		r.is(20*24*time.Hour, false, health.ClockStep)
	})
}

// After a day of a right time, the next step is measured from there.
func TestClock_measuresFromWhatHasStood(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now())
		const step = 25 * 24 * time.Hour
		for offset := step; offset < 100*24*time.Hour; offset += step {
			r.set(offset, true)
			r.pass(25 * time.Hour)
			r.is(offset, true)
		}
	})
}

// A new board has no floor: the first time of a synchronised system is believed.
func TestClock_firstStartBelieves(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Time{})
		r.set(56*years, true) // it began in 1970
		r.pass(10 * time.Second)
		r.is(56*years, true)
		r.set(70*years, true)
		r.pass(10 * time.Second)
		r.is(56*years, false, health.ClockStep)
	})
}

func TestClock_Accept(t *testing.T) {
	for _, sync := range []bool{true, false} {
		within(t, func(r *rig) {
			r.set(years, sync)
			r.run(time.Now())
			jump, err := r.Accept(r.Context())
			if err != nil || jump != years {
				t.Errorf("jump %s, %v", jump, err)
			}
			r.is(years, true)
			if s := r.Status(); !s.Accepted || s.Synchronised != sync || s.Why != "" {
				t.Errorf("%+v", s)
			}
			if !slices.Equal(r.steps, []time.Duration{years}) {
				t.Errorf("steps: %v", r.steps)
			}
			if floors := r.floors(); len(floors) == 0 || time.Until(floors[len(floors)-1]) != years {
				t.Errorf("floors: %v", floors)
			}
			r.pass(time.Hour)
			r.is(years, true)
			r.set(years, false) // the time service is lost: what was accepted holds for this run
			r.pass(time.Hour)
			r.is(years, true)
			if r.start(r.Now()).Trusted() {
				t.Error("the next run trusts what was accepted in this one")
			}
		})
	}
}

// What an administrator has accepted does not outweigh a time service that contradicts.
func TestClock_Accept_contradicted(t *testing.T) {
	within(t, func(r *rig) {
		r.run(time.Now())
		if _, err := r.Accept(r.Context()); err != nil {
			t.Fatal(err)
		}
		r.is(0, true)
		r.set(years, true)
		r.pass(10 * time.Second)
		r.is(0, false, health.ClockStep)
		r.set(-time.Hour, true)
		r.pass(10 * time.Second)
		r.is(0, false, health.ClockAhead)
		if _, err := r.Accept(r.Context()); !fault.Is(err, fault.Conflict) {
			t.Errorf("a time that is behind was accepted: %v", err)
		}
	})
}

// A clock that an administrator sets back was not right before.
func TestClock_Holdover_reset(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now().Add(time.Minute))
		r.set(0, false)
		r.pass(time.Minute)
		if r.Trusted() || !r.Holdover() {
			t.Errorf("before: trusted %t, holdover %t", r.Trusted(), r.Holdover())
		}
		if err := r.Reset(r.Context(), func(context.Context, time.Time, time.Time) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if r.Holdover() {
			t.Error("it vouches for a time that nobody has")
		}
	})
}

// After a suspend the time is not sure before it was looked at, although the clock is trusted.
func TestClock_Holdover_suspended(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now())
		r.pass(time.Minute)
		if !r.Holdover() {
			t.Error("before: no holdover")
		}
		r.set(time.Hour, true)
		if r.Holdover() {
			t.Error("at once after the suspend it vouches for the time")
		}
		r.pass(time.Minute)
		if !r.Holdover() {
			t.Error("the time is known again: no holdover")
		}
	})
}

func TestClock_Reset(t *testing.T) {
	within(t, func(r *rig) {
		r.set(0, true)
		r.run(time.Now().Add(14 * years))
		r.is(14*years, false, health.ClockAhead)
		var lowered time.Time
		lower := func(_ context.Context, floor, was time.Time) error {
			if was.Sub(floor) != 14*years || r.Trusted() {
				t.Errorf("from %s to %s, trusted %t", was, floor, r.Trusted())
			}
			lowered = floor
			return nil
		}
		full := errors.New("disk full")
		if err := r.Reset(r.Context(), func(context.Context, time.Time, time.Time) error { return full }); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
		r.is(14*years, false, health.ClockAhead)
		if err := r.Reset(r.Context(), lower); err != nil || !lowered.Equal(time.Now()) {
			t.Errorf("%v, lowered to %s", err, lowered)
		}
		r.is(0, true)
		if !slices.Equal(r.steps, []time.Duration{0}) {
			t.Errorf("steps: %v", r.steps)
		}
		if err := r.Reset(r.Context(), lower); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second reset: %v", err)
		}
		r.pass(time.Hour)
		r.is(0, true)
		floors := r.floors()
		if last := floors[len(floors)-1]; last.After(time.Now()) {
			t.Errorf("the floor went up again, to %s", last)
		}
	})
}

// A reader that is under way does not carry the old time over a reset.
func TestClock_Reset_whileRead(t *testing.T) {
	r := &rig{T: t}
	r.set(0, true)
	c := r.start(time.Now().Add(years))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				_ = c.Now()
			}
		}
	}()
	if err := c.Reset(r.Context(), func(context.Context, time.Time, time.Time) error { return nil }); err != nil {
		t.Error(err)
	}
	close(stop)
	<-ended
	if ahead := time.Until(c.Now()); ahead > time.Minute { // real time: it only becomes less
		t.Errorf("still %s ahead", ahead)
	}
}
