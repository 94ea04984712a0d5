package machine_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/health"
)

// stepped returns now with another wall time but the same monotonic reading, as
// [time.Now] does after the system's clock was set. Nothing in package time makes
// such a time, so it is made by hand. In a synctest bubble times have no monotonic
// reading.
func stepped(now time.Time, by time.Duration) time.Time {
	if now == now.Round(0) {
		return now.Add(by)
	}
	type layout struct { // of time.Time
		_         uint64
		monotonic int64
		_         *time.Location
	}
	out := now.Add(by)
	(*layout)(unsafe.Pointer(&out)).monotonic = (*layout)(unsafe.Pointer(&now)).monotonic
	return out
}

// rig is a clock over a machine whose time the test sets.
type rig struct {
	*testing.T
	*machine.Clock

	mu         sync.Mutex // guards what follows
	offset     time.Duration
	sync       bool
	saved      []time.Time
	saveErr    error
	steps      []time.Duration
	conditions health.Registry
}

func (r *rig) Wall(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return stepped(now, r.offset)
}

func (r *rig) Synchronised() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sync
}

func (r *rig) save(_ context.Context, t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.saveErr != nil {
		return r.saveErr
	}
	r.saved = append(r.saved, t)
	return nil
}

// floors returns what was saved so far.
func (r *rig) floors() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.saved)
}

// set moves the machine's clock to offset from where it was at first.
func (r *rig) set(offset time.Duration, sync bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset, r.sync = offset, sync
}

// start makes a clock on the floor.
func (r *rig) start(floor time.Time) *machine.Clock {
	r.Helper()
	c, err := machine.NewClock(machine.ClockConfig{
		Floor: floor, Save: r.save, Logger: slog.New(slog.DiscardHandler), Health: &r.conditions, System: r,
	})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// run starts a clock on the floor and runs it until the test ends; call it in a
// synctest bubble.
func (r *rig) run(floor time.Time) {
	r.Helper()
	c := r.start(floor)
	r.Clock = c
	c.OnStep(func(step time.Duration) { r.steps = append(r.steps, step) })
	go func() { _ = c.Run(r.Context()) }()
	synctest.Wait()
}

// pass lets time pass, in the machine and in the test alike.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// is checks the time of the clock against the bubble's own, and its trust.
func (r *rig) is(ahead time.Duration, trusted bool, codes ...health.Code) {
	r.Helper()
	if got := r.Now().Round(0).Sub(time.Now().Round(0)); got != ahead {
		r.Errorf("the clock is %s ahead of the first time, want %s", got, ahead)
	}
	if r.Trusted() != trusted {
		r.Errorf("trusted is %t", r.Trusted())
	}
	var got []health.Code
	for _, c := range r.conditions.Conditions() {
		got = append(got, c.Code)
	}
	if !slices.Equal(got, codes) {
		r.Errorf("the conditions are %v, want %v", got, codes)
	}
}

// within runs a test in a bubble.
func within(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&rig{T: t}) })
}
