package machine

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// TotalMemory returns the bytes of memory that this process may use: those of the
// machine, or of its control group (version 2) where that has fewer. It is 0 where the
// system does not report them.
func TotalMemory() uint64 { return totalMemory(os.DirFS("/"), sysinfoMemory()) }

// sysinfoMemory asks the kernel (sysinfo(2)), which answers in a sandbox without
// /proc/meminfo too.
func sysinfoMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // 32 bits wide on arm
}

// totalMemory reads from root, the root of the file system; machine is what there is
// in all, 0 where that is not known.
func totalMemory(root fs.FS, machine uint64) uint64 {
	total := machine
	for _, file := range limitFiles(root) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // "max" is none
		if err == nil && limit > 0 && (total == 0 || limit < total) {
			total = limit
		}
	}
	return total
}

// limitFiles returns the files with the limits of this process' control group and of those
// above it (cgroups(7), version 2).
func limitFiles(root fs.FS) []string {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	group, _, _ := strings.Cut(strings.TrimPrefix(string(text), "0::"), "\n")
	var files []string
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		files = append(files, path.Join("sys/fs/cgroup", dir, "memory.max"))
		if dir == "/" {
			return files
		}
	}
}
