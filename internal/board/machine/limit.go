package machine

import (
	"cmp"
	"math"
	"os"
	"runtime/debug"
)

// The memory of the runtime that is not for stations, with room for floods, and the memory
// of a station: 4,096 with TLS need 160 MB with the garbage that comes before a collection.
const (
	baseMemory    = 43 << 20
	stationMemory = 32 << 10
)

// garbagePercent is how much garbage may come upon what is alive before a collection, in
// percent: twice as much as by default, because little is alive, and collections were a tenth
// of the processor's time of an unlock. The memory limit still holds.
const garbagePercent = 200

// leastStations is how many stations may connect however little memory there is.
const leastStations = 64

// LimitMemory sets the memory limit of the runtime, unless GOMEMLIMIT has set one ("off"
// sets none), to three fifths of the memory that this process may use. The rest is for what
// the runtime does not count, such as SQLite's pages, and for a collection that comes late.
// Unless GOGC is set, garbage is collected half as often as by default.
func LimitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if limit := limitFor(TotalMemory()); debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
}

// limitFor returns the limit for that much memory, 0 for an unknown amount.
func limitFor(total uint64) int64 {
	return cmp.Or(int64(total/5*3), math.MaxInt64) //nolint:gosec // no machine has so much
}

// MostStations returns how many stations the memory limit of the runtime carries. With more,
// the live memory would be above the limit, and the processor would do nothing but collect
// garbage.
func MostStations() int { return stationsIn(debug.SetMemoryLimit(-1)) }

func stationsIn(limit int64) int {
	return int(min(max(leastStations, (limit-baseMemory)/stationMemory), math.MaxInt32))
}
