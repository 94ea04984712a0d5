package machine

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernel is the [System] that the process runs on.
type kernel struct{}

// Wall implements [System].
func (kernel) Wall(now time.Time) time.Time { return now }

// Synchronised implements [System].
func (kernel) Synchronised() bool {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return synchronised(int64(t.Maxerror), err, timesyncdFile) //nolint:unconvert // 32 bits wide on arm
}

// timesyncdFile appears when systemd-timesyncd has set the clock
// (systemd-timesyncd.service(8)).
const timesyncdFile = "/run/systemd/timesync/synchronized"

// maxError is what the kernel raises its estimated error to, in microseconds,
// when nothing disciplines the clock (NTP_PHASE_LIMIT in the kernel). It is more reliable
// than STA_UNSYNC, which some time services set to keep the kernel's hands off the
// hardware clock.
const maxError = 16_000_000

// synchronised judges the error that adjtimex(2) returns; where a sandbox forbids the
// call, the mark of systemd's own time service has to do.
func synchronised(microseconds int64, err error, file string) bool {
	if err == nil {
		return microseconds < maxError
	}
	_, err = os.Stat(file)
	return err == nil
}
