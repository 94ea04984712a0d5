package host_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/host"
)

func TestTidier_Run_onceAfterAWave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed, waiting atomic.Int32
		tidier := host.NewTestTidier(func() int { return int(waiting.Load()) }, func() { freed.Add(1) })
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
		pass(time.Second)
		if freed.Load() != 1 {
			t.Errorf("tidied %d times after the wave, want once", freed.Load())
		}
		pass(time.Hour)
		come(1)
		pass(time.Hour)
		if freed.Load() != 1 {
			t.Errorf("tidied %d times, want still once", freed.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for range 10_000 {
			tidier.Connected() // nobody listens; nobody waits
		}
	})
}
