package sqlite_test

import (
	"testing"
	"time"

	"gatehouse/internal/record/sqlite"
)

// Records that no caller waits for take a tenth of the writer's time at most, and never wait
// for long.
func TestBatchDelay(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 5 * time.Millisecond, time.Millisecond: 9 * time.Millisecond,
		20 * time.Millisecond: 180 * time.Millisecond, time.Minute: time.Second,
	} {
		if got := sqlite.BatchDelay(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}
