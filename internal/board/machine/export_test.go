package machine

import (
	"io/fs"
)

// Check does what Run does every ten seconds.
func Check(c *Clock) { c.check() }

// MemoryOf is TotalMemory of the system whose root is given, with so much memory.
func MemoryOf(root fs.FS, machine uint64) uint64 { return totalMemory(root, machine) }

// SynchronisedBy judges an answer of adjtimex.
func SynchronisedBy(maxError int64, err error, file string) bool {
	return synchronised(maxError, err, file)
}

// NewTestTidier returns a Tidier that calls free, and hold with whether collections are
// held from then on.
func NewTestTidier(waiting func() int, free func(), hold func(bool)) *Tidier {
	t := NewTidier(waiting)
	t.free = free
	t.hold = func() func() {
		hold(true)
		return func() { hold(false) }
	}
	return t
}

// Reachable and Temporary are the parts of [Addresses].
var (
	Reachable = reachable
	Temporary = temporary
)

// NetworkNameOf is [NetworkName] of a system that is called so.
func NetworkNameOf(system string) string { return networkName(system) }
