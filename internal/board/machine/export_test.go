package machine

import (
	"io/fs"
)

// Check does what Run does every ten seconds.
func Check(c *Clock) { c.check() }

// MemoryOf is TotalMemory of the system whose root is given, with so much memory.
func MemoryOf(root fs.FS, machine uint64) uint64 { return totalMemory(root, machine) }

// LimitFor and StationsIn are the figures of [LimitMemory] and [MostStations].
var (
	LimitFor   = limitFor
	StationsIn = stationsIn
)

// SynchronisedBy judges an answer of adjtimex.
func SynchronisedBy(maxError int64, err error, file string) bool {
	return synchronised(maxError, err, file)
}

// Reachable and Temporary are the parts of [Addresses].
var (
	Reachable = reachable
	Temporary = temporary
)

// NetworkNameOf is [NetworkName] of a system that is called so.
func NetworkNameOf(system string) string { return networkName(system) }

// PublishedBy is [PublishedName] where avahi and systemd-resolved answer elsewhere.
var PublishedBy = publishedBy
