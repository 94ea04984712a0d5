package machine

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// ResidentMemory returns the bytes of memory that this process has; 0 where the system
// does not report them.
func ResidentMemory() uint64 { return residentMemory(os.DirFS("/")) }

// residentMemory reads the second field of statm, in pages (proc(5)).
func residentMemory(root fs.FS) uint64 {
	text, err := fs.ReadFile(root, "proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 40)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize()) //nolint:gosec // a page has a size
}
