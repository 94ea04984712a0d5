// Package boottime reads the clock by which a deadline passes while the machine sleeps. Go's
// own monotonic time stops meanwhile. Any package on a higher floor may use it.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns how long ago the machine was started, with the time that it was suspended
// (clock_gettime(2), CLOCK_BOOTTIME).
func Now() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails only for an unknown clock
	return time.Duration(now.Nano())
}
