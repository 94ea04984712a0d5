package limit_test

import (
	"testing"
	"time"

	"gatehouse/internal/limit"
)

func start() time.Time { return time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC) }

func TestBuckets(t *testing.T) {
	b, now := limit.NewBuckets[string](3, time.Second), start()
	for range 3 {
		if wait := b.Wait("a", now); wait != 0 {
			t.Fatalf("a full bucket: wait %s", wait)
		}
		b.Take("a", now)
	}
	if wait := b.Wait("a", now); wait != time.Second {
		t.Errorf("an empty bucket: wait %s, want a second", wait)
	}
	if wait := b.Wait("b", now); wait != 0 {
		t.Errorf("another key: wait %s", wait)
	}
	if wait := b.Wait("a", now.Add(999*time.Millisecond)); wait != time.Millisecond {
		t.Errorf("a millisecond before the next token: wait %s", wait)
	}
	b.Refund("a")
	if wait := b.Wait("a", now); wait != 0 {
		t.Errorf("after a refund: wait %s", wait)
	}
	b.Take("a", now)
	b.Forget("a")
	if wait := b.Wait("a", now); wait != 0 || b.Len() != 0 {
		t.Errorf("after Forget: wait %s, %d keys", wait, b.Len())
	}
}

// A clock that goes back empties no bucket for longer than it takes to fill.
func TestBuckets_clockBack(t *testing.T) {
	b, now := limit.NewBuckets[string](3, time.Second), start()
	b.Take("a", now)
	now = now.AddDate(-1, 0, 0)
	for after, want := range []time.Duration{time.Second, 0} {
		if wait := b.Wait("a", now.Add(time.Duration(after)*time.Second)); wait != want {
			t.Errorf("after %d s: wait %s, want %s", after, wait, want)
		}
	}
}

// The table is bounded, and filling it does not free the key under attack.
func TestBuckets_bounded(t *testing.T) {
	b, now := limit.NewBuckets[int](2, time.Second), start()
	b.Take(-1, now)
	b.Take(-1, now)
	for i := range limit.MaxKeys + 100 {
		b.Take(i, now)
	}
	if wait := b.Wait(-1, now); wait != time.Second || b.Len() != limit.MaxKeys {
		t.Errorf("wait %s, %d keys", wait, b.Len())
	}
	b.ForgetFunc(func(key int) bool { return key != -1 })
	if b.Len() != 1 {
		t.Errorf("%d keys are left", b.Len())
	}
}
