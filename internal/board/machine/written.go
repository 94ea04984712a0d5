package machine

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sector is the unit of the kernel's statistics of every disk, in bytes.
const sector = 512

// Written returns how many bytes were written to the partition that an absolute path is
// on, since the machine was started, and the name of the partition, such as "mmcblk0p4".
// The error is [fs.ErrNotExist] where the kernel does not count that: not every file
// system is on one partition.
func (m Machine) Written(path string) (bytes int64, partition string, err error) {
	info, err := m.Stat(path)
	if err != nil {
		return 0, "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, "", fs.ErrNotExist
	}
	device := fmt.Sprintf("sys/dev/block/%d:%d/", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	text, err := fs.ReadFile(m.Files, device+"stat")
	if err != nil {
		return 0, "", err
	}
	fields := append(strings.Fields(string(text)), "", "", "", "", "", "", "")
	sectors, err := strconv.ParseInt(fields[6], 10, 64) // Linux, Documentation/block/stat.rst
	if err != nil {
		return 0, "", fmt.Errorf("reading %sstat: %w", device, err)
	}
	text, err = fs.ReadFile(m.Files, device+"uevent")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			partition = name
		}
	}
	return sectors * sector, partition, err
}

// Uptime returns how long ago the machine was started.
func (m Machine) Uptime() (time.Duration, error) {
	text, err := fs.ReadFile(m.Files, "proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("reading /proc/uptime: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
