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
	// crowded is how many connections that wait for the processor make a wave, and lookEvery
	// how often they are counted.
	crowded   = 32
	lookEvery = 250 * time.Millisecond
	// quiet is how long none must wait before a wave counts as over: longer than stations
	// wait before they try again.
	quiet = 10 * time.Second
)

// LimitMemory sets the memory limit of the runtime to 144 MiB, unless GOMEMLIMIT has set
// one ("off" sets none).
func LimitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(mostMemory)
	}
}

// HoldCollections collects no garbage below the runtime's memory limit during a wave of
// connections, such as when the power comes back and a thousand stations with it: on a
// slow processor one collection stops doors and connections for seconds. After the wave
// its memory is returned to the system. waiting returns how many connections wait for the
// processor. It runs until ctx ends, and does nothing where the runtime has no limit.
func HoldCollections(ctx context.Context, waiting func() int) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	held, percent := false, 0
	var busy time.Time // when one waited last
	for {
		select {
		case <-ctx.Done():
			if held {
				debug.SetGCPercent(percent)
			}
			return nil
		case <-look.C:
		}
		n := waiting()
		if n > 0 {
			busy = time.Now()
		}
		switch {
		case !held && n >= crowded && debug.SetMemoryLimit(-1) < math.MaxInt64:
			held, percent = true, debug.SetGCPercent(-1)
		case held && time.Since(busy) >= quiet:
			debug.FreeOSMemory() // the one collection, before the old percentage asks for another
			debug.SetGCPercent(percent)
			held = false
		}
	}
}
