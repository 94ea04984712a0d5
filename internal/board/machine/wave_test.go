package machine_test

import (
	"context"
	"math"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/machine"
)

// While many connections wait for the processor no garbage is collected; and without a
// memory limit it always is.
func TestHoldCollections(t *testing.T) {
	limit := debug.SetMemoryLimit(1 << 30)
	defer debug.SetMemoryLimit(limit)
	synctest.Test(t, func(t *testing.T) {
		var waiting atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- machine.HoldCollections(ctx, func() int { return int(waiting.Load()) }) }()
		expect := func(n int32, after time.Duration, want bool, what string) {
			waiting.Store(n)
			time.Sleep(after)
			synctest.Wait()
			percent := debug.SetGCPercent(100)
			debug.SetGCPercent(percent)
			if held := percent < 0; held != want {
				t.Errorf("%s: collections are held: %t", what, held)
			}
		}
		expect(31, time.Minute, false, "few wait")
		expect(32, time.Second, true, "many wait")
		expect(1, time.Hour, true, "one waits")
		expect(0, 9*time.Second, true, "a pause")
		expect(1, time.Second, true, "the wave goes on")
		expect(0, 12*time.Second, false, "the wave is over")
		debug.SetMemoryLimit(math.MaxInt64)
		expect(32, time.Minute, false, "without a limit")
		debug.SetMemoryLimit(1 << 30)
		expect(32, time.Second, true, "again")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		expect(0, 0, false, "after the end")
	})
}
