package host_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/host"
)

func TestTidier_Run_onceAfterAWave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := 0
		tidier := host.NewTestTidier(func() { freed++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tidier.Run(ctx) }()
		come := func(n int) {
			for range n {
				tidier.Connected()
				synctest.Wait()
			}
		}
		come(150)
		<-time.After(time.Hour)
		if freed != 0 {
			t.Error("150 connections are no wave")
		}
		come(100)
		if freed != 0 {
			t.Error("tidied in the middle of the wave")
		}
		<-time.After(time.Second)
		if freed != 1 {
			t.Errorf("tidied %d times after the wave, want once", freed)
		}
		<-time.After(time.Hour)
		come(1)
		<-time.After(time.Hour)
		if freed != 1 {
			t.Errorf("tidied %d times, want still once", freed)
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
