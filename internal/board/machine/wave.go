package machine

import (
	"context"
	"math"
	"runtime/debug"
	"time"
)

const (
	// mostMemory is the memory limit of the runtime, in bytes, which leaves a board of 512 MB
	// room for the system and for a collection that comes late.
	mostMemory = 144 << 20
	// wave is how many connections make a wave.
	wave = 200
	// queue is how many connections that wait for the processor make one too.
	queue = 32
	// quiet is how long no connection may come before a wave counts as over: longer than
	// stations wait before they try again.
	quiet = 10 * time.Second
)

// LimitMemory sets the memory limit of the runtime to 144 MiB, unless GOMEMLIMIT has set
// one ("off" sets none).
func LimitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(mostMemory)
	}
}

// Tidier bounds memory during a wave of connections, such as when the power comes back and
// a thousand stations with it. While many of them wait for the processor, no garbage is
// collected below the runtime's memory limit: on a slow processor one collection stops
// doors and connections for seconds. After the wave its memory is returned to the system:
// grown stacks and garbage that the runtime would keep for minutes, on a board that has
// little. Safe for concurrent use.
type Tidier struct {
	came    chan struct{} // capacity wave: connections that have not been counted yet
	waiting func() int
	free    func()
	hold    func() (release func())
}

// NewTidier returns a Tidier; it works while Run runs. waiting returns how many
// connections wait until the processor has time for them: until it is 0, no wave is
// over.
func NewTidier(waiting func() int) *Tidier {
	return &Tidier{came: make(chan struct{}, wave), waiting: waiting, free: debug.FreeOSMemory, hold: holdCollections}
}

// holdCollections stops collections below the memory limit until release is called.
// Without a limit it does nothing.
func holdCollections() (release func()) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		return func() {}
	}
	percent := debug.SetGCPercent(-1)
	return func() { debug.SetGCPercent(percent) }
}

// Connected notes one connection. It never waits: in a wave it does not matter how
// many are not counted.
func (t *Tidier) Connected() {
	select {
	case t.came <- struct{}{}:
	default:
	}
}

// Run handles waves until ctx ends.
func (t *Tidier) Run(ctx context.Context) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	var release func() // not nil: collections are held
	end := func() {
		if release != nil {
			release()
		}
		release = nil
	}
	defer end()
	count := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.came:
			if count++; release == nil && t.waiting() >= queue {
				release = t.hold()
			}
			if count >= wave || release != nil {
				timer.Reset(quiet)
			}
		case <-timer.C:
			switch {
			case count < wave && release == nil:
			case t.waiting() > 0:
				timer.Reset(quiet)
			default:
				t.free() // the one collection, before the release asks for another
				end()
				count = 0
			}
		}
	}
}
