package turn_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"gatehouse/internal/access/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// take takes a turn that must be had.
func take(t *testing.T, k *turn.Keyed[int], key int) (give func()) {
	t.Helper()
	give, err := k.Take(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return give
}

// One key has one holder at a time; keys do not wait for each other; what nobody
// wants any more is forgotten.
func TestKeyed_Take(t *testing.T) {
	const keys, each = 3, 5
	synctest.Test(t, func(t *testing.T) {
		var k turn.Keyed[int]
		var holders [keys]atomic.Int64
		gate := make(chan struct{})
		var all sync.WaitGroup
		for i := range keys * each {
			all.Go(func() {
				defer take(t, &k, i%keys)()
				holders[i%keys].Add(1)
				<-gate
				holders[i%keys].Add(-1)
			})
		}
		for range each {
			synctest.Wait()
			for key := range holders {
				if n := holders[key].Load(); n != 1 {
					t.Errorf("%d have the turn of key %d", n, key)
				}
			}
			for range keys {
				gate <- struct{}{}
			}
		}
		all.Wait()
		if n := k.Lines(); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

// Whoever gives up waiting gets the error of the context, and nobody is the worse.
func TestKeyed_Take_givenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k turn.Keyed[int]
		give := take(t, &k, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := k.Take(ctx, 1); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := k.Take(ctx, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("who had left before gets %v for a free turn", err)
		}
		give()
		take(t, &k, 1)()
		if n := k.Lines(); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

// For the race detector: turns alone guard the counts.
func TestKeyed_concurrent(t *testing.T) {
	const keys, rounds = 4, 500
	var k turn.Keyed[int]
	var counts [keys]int
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range rounds {
				give := take(t, &k, i%keys)
				counts[i%keys]++
				give()
			}
		})
	}
	all.Wait()
	for key, n := range counts {
		if n != 8*rounds/keys {
			t.Errorf("key %d: %d", key, n)
		}
	}
	if n := k.Lines(); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
}

func BenchmarkKeyed_Take(b *testing.B) {
	var k turn.Keyed[int]
	for b.Loop() {
		give, _ := k.Take(b.Context(), 1)
		give()
	}
}
