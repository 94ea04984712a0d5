package machine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/machine"
)

func TestTidier_Run_onceAfterAWave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed, waiting atomic.Int32
		var held atomic.Bool
		tidier := machine.NewTestTidier(func() int { return int(waiting.Load()) }, func() { freed.Add(1) }, held.Store)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tidier.Run(ctx) }()
		come := func(n int) {
			for range n {
				tidier.Connected()
				synctest.Wait()
			}
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		come(150)
		pass(time.Hour)
		if freed.Load() != 0 {
			t.Error("150 connections are no wave")
		}
		come(100)
		if freed.Load() != 0 {
			t.Error("tidied in the middle of the wave")
		}
		waiting.Store(1) // the processor is slow
		pass(time.Minute)
		if freed.Load() != 0 {
			t.Error("tidied while connections wait")
		}
		waiting.Store(0)
		pass(10 * time.Second)
		if freed.Load() != 1 {
			t.Errorf("tidied %d times after the wave, want once", freed.Load())
		}
		pass(time.Hour)
		come(1)
		pass(time.Hour)
		if freed.Load() != 1 {
			t.Errorf("tidied %d times, want still once", freed.Load())
		}
		waiting.Store(40)
		come(1)
		pass(time.Minute)
		if !held.Load() || freed.Load() != 1 {
			t.Error("a collection may come while many wait for the processor")
		}
		waiting.Store(0)
		pass(10 * time.Second)
		if held.Load() || freed.Load() != 2 {
			t.Error("collections are still held after the wave, or it was not tidied up")
		}
		waiting.Store(40)
		come(1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if held.Load() {
			t.Error("collections are held after the end")
		}
		for range 10_000 {
			tidier.Connected() // without a receiver, and it does not block
		}
	})
}
