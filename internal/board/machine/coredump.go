package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DisableCoreDumps keeps the memory of this process, with its keys and tokens, out
// of core dumps, for its whole life. The limit is one byte where that is allowed:
// as zero it writes no file, and unlike zero it also stops a kernel that pipes core
// dumps to a program (the kernel's coredump.c takes it for "none at all").
func DisableCoreDumps() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("reading the limit of core dumps: %w", err)
	}
	limit.Max = min(limit.Max, 1)
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("switching core dumps off: %w", err)
	}
	return nil
}
