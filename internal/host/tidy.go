package host

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	// wave is how many connections make a wave.
	wave = 200
	// quiet is how long no connection may come before a wave counts as over.
	quiet = 300 * time.Millisecond
)

// Tidier gives memory back to the system after a wave of connections, such as
// when the power comes back and a thousand stations with it. A wave leaves grown
// stacks and garbage behind that the runtime would keep for minutes, on a board
// that has little. Safe for concurrent use.
type Tidier struct {
	came    chan struct{} // capacity wave: connections that have not been counted yet
	waiting func() int
	free    func()
}

// NewTidier returns a Tidier; it works while Run runs. waiting returns how many
// connections wait until the processor has time for them: until it is 0, no wave is
// over, and a collection would take the time of all of them.
func NewTidier(waiting func() int) *Tidier {
	return &Tidier{came: make(chan struct{}, wave), waiting: waiting, free: debug.FreeOSMemory}
}

// Connected notes one connection. It never waits: in a wave it does not matter how
// many are not counted.
func (t *Tidier) Connected() {
	select {
	case t.came <- struct{}{}:
	default:
	}
}

// Run gives memory back after each wave until ctx ends.
func (t *Tidier) Run(ctx context.Context) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	count := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.came:
			if count++; count >= wave {
				timer.Reset(quiet)
			}
		case <-timer.C:
			if count < wave {
				continue
			}
			if t.waiting() > 0 {
				timer.Reset(quiet)
			} else {
				t.free()
				count = 0
			}
		}
	}
}
