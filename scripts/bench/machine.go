package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine is what the figures were measured on.
type machine struct {
	CPU        string        `json:"cpu"`
	Cores      int           `json:"cores"`
	Kernel     string        `json:"kernel"`
	Go         string        `json:"go"`
	Filesystem string        `json:"filesystem"` // of the temporary data
	Flush      time.Duration `json:"flushNs"`    // median of writing 200 bytes and fdatasync, alone
	Load       string        `json:"load"`       // average over the last minute, before the run
}

func describeMachine(dir string) machine {
	m := machine{CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version(), Filesystem: filesystem(dir), Flush: flushTime(dir)}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
	}
	load, _ := os.ReadFile("/proc/loadavg")
	m.Load, _, _ = strings.Cut(string(load), " ")
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s\ndata on %s, write and fdatasync of %d bytes %s, load average before %s",
		m.CPU, m.Cores, m.Kernel, m.Go, m.Filesystem, recordSize, milliseconds(m.Flush.Seconds()*1e3), m.Load)
}

// cpuModel reads what the processor, or else the board, is called.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for _, key := range []string{"model name", "Model"} {
		for line := range bytes.Lines(info) {
			name, value, ok := bytes.Cut(line, []byte{':'})
			if ok && string(bytes.TrimSpace(name)) == key {
				return string(bytes.TrimSpace(value))
			}
		}
	}
	return runtime.GOARCH
}

// filesystem names the kind of file system. On tmpfs a flush costs nothing, and
// every figure of the unlock is worthless.
func filesystem(dir string) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return "an unknown file system"
	}
	switch stat.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs (NOT A DISK: choose another --dir)"
	default:
		return fmt.Sprintf("file system %#x", stat.Type)
	}
}

// flushTime is the median time to append one record durably, 0 if it cannot be.
func flushTime(dir string) time.Duration {
	const times = 300
	file, err := os.OpenFile(filepath.Join(dir, "flush"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0
	}
	defer file.Close()
	taken := make([]time.Duration, times)
	for i := range taken {
		began := time.Now()
		if _, err := file.Write(make([]byte, recordSize)); err != nil {
			return 0
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return 0
		}
		taken[i] = time.Since(began)
	}
	slices.Sort(taken)
	return percentile(taken, 50)
}
