package machine

import (
	"math"
	"runtime/debug"
)

// mostMemory is the memory limit of the runtime, in bytes, which leaves a board of 512 MB
// room for the system and for a collection that comes late.
const mostMemory = 144 << 20

// LimitMemory sets the memory limit of the runtime to 144 MiB, unless GOMEMLIMIT has set
// one ("off" sets none).
func LimitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(mostMemory)
	}
}
