package host

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// TotalMemory gives the bytes of memory that this process may use: those of the
// machine, or of its control group (version 1 or 2) where that has fewer. It is 0
// where the system does not say.
func TotalMemory() uint64 { return totalMemory(os.DirFS("/")) }

// totalMemory reads from root, the root of the file system.
func totalMemory(root fs.FS) uint64 {
	total := machineMemory(root)
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

// machineMemory reads MemTotal of /proc/meminfo (proc(5)).
func machineMemory(root fs.FS) uint64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			kibibytes, err := strconv.ParseUint(fields[1], 10, 53)
			if err == nil {
				return kibibytes * 1024
			}
		}
	}
	return 0
}

// limitFiles lists where the limits of this process' control group and of those
// above it may stand (cgroups(7)).
func limitFiles(root fs.FS) []string {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var files []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		switch {
		case ok && controllers == "": // version 2
			files = append(files, upwards("sys/fs/cgroup", group, "memory.max")...)
		case ok && strings.Contains(","+controllers+",", ",memory,"):
			files = append(files, upwards("sys/fs/cgroup/memory", group, "memory.limit_in_bytes")...)
		}
	}
	return files
}

// upwards names file in the group below mount and in each group above it.
func upwards(mount, group, file string) []string {
	var files []string
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		files = append(files, path.Join(mount, dir, file))
		if dir == "/" {
			return files
		}
	}
}
