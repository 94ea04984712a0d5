package host

import (
	"io/fs"
)

// Check does what Run does every ten seconds.
func Check(c *Clock) { c.check() }

// MemoryOf is TotalMemory of the system whose root is given.
func MemoryOf(root fs.FS) uint64 { return totalMemory(root) }

// SynchronisedBy judges an answer of adjtimex.
func SynchronisedBy(maxError int64, err error, file string) bool {
	return synchronised(maxError, err, file)
}

// NewTestTidier gives a Tidier that calls free.
func NewTestTidier(free func()) *Tidier {
	t := NewTidier()
	t.free = free
	return t
}

// Reachable and Temporary are the parts of [Addresses].
var (
	Reachable = reachable
	Temporary = temporary
)
