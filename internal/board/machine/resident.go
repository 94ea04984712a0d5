package machine

import (
	"fmt"
	"os"
)

// ResidentMemory returns the bytes of memory that this process has; 0 where the system
// does not report them.
func ResidentMemory() uint64 {
	text, _ := os.ReadFile("/proc/self/statm") // in pages (proc(5)); no text has no fields
	var size, resident uint64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize()) //nolint:gosec // a page has a size
}
