package machine

import (
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Process is a running program.
type Process struct {
	ID       int    // 0: there is none
	Name     string // "mosquitto"
	Resident int64  // bytes of memory; 0 where unknown
}

// Process tells of a running program.
func (m Machine) Process(pid int) Process {
	dir := "/proc/" + strconv.Itoa(pid)
	return Process{ID: pid, Name: m.text(dir + "/comm"), Resident: kibibytes(m.text(dir+"/status"), "VmRSS")}
}

// LockHolder gives the process that holds the lock on a file (flock(2)), as a gateway
// does on the one in its data directory. 0: none does, or it cannot be seen.
func (m Machine) LockHolder(file string) int {
	info, err := m.Stat(file)
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	inode := ":" + strconv.FormatUint(stat.Ino, 10)
	for line := range strings.Lines(m.text("/proc/locks")) {
		fields := strings.Fields(line) // number, kind, ADVISORY, WRITE, process, device:inode, from, to
		if len(fields) < 6 || fields[1] != "FLOCK" || !strings.HasSuffix(fields[5], inode) {
			continue
		}
		// The device is not compared: some file systems show another one here. So
		// the name has to do.
		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 && m.Process(pid).Name == programName {
			return pid
		}
	}
	return 0
}

// programName is what the kernel calls a process of the gateway.
const programName = "gatehouse"

// Memory is the memory of the machine, in bytes.
type Memory struct{ Total, Available, SwapTotal, SwapFree int64 }

// Memory reads /proc/meminfo (proc(5)). Total is 0 where the system does not say.
func (m Machine) Memory() Memory {
	text := m.text("/proc/meminfo")
	return Memory{
		Total: kibibytes(text, "MemTotal"), Available: kibibytes(text, "MemAvailable"),
		SwapTotal: kibibytes(text, "SwapTotal"), SwapFree: kibibytes(text, "SwapFree"),
	}
}

// kibibytes finds a line such as "MemTotal:  506780 kB"; 0 where there is none.
func kibibytes(text, name string) int64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == name+":" {
			n, err := strconv.ParseInt(fields[1], 10, 53)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

// KilledForMemory gives how often the kernel killed a process of a control group
// (version 2) because it ran out of memory.
func (m Machine) KilledForMemory(group string) int {
	for line := range strings.Lines(m.text(path.Join("/sys/fs/cgroup", group, "memory.events"))) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(count); err == nil && name == "oom_kill" {
			return n
		}
	}
	return 0
}

// Throttled gives what the firmware of a Raspberry Pi says of its power supply: bit 0
// the voltage is too low now, bit 16 it was since the start (vcgencmd get_throttled);
// false on other machines.
func (m Machine) Throttled() (bits uint64, known bool) {
	text := m.text("/sys/devices/platform/soc/soc:firmware/get_throttled")
	bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	return bits, err == nil
}

// UserID finds a user of the system by name (passwd(5)).
func (m Machine) UserID(name string) (uid uint32, known bool) {
	for line := range strings.Lines(m.text("/etc/passwd")) {
		fields := strings.Split(line, ":")
		if len(fields) > 2 && fields[0] == name {
			n, err := strconv.ParseUint(fields[2], 10, 32)
			return uint32(n), err == nil
		}
	}
	return 0, false
}
