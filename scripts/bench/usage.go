package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what some processes have used since they began.
type usage struct {
	at      time.Time
	cpu     time.Duration // user and system
	written int64         // bytes handed to the disk, by pages made dirty
}

// usageRate is usage per second of wall time.
type usageRate struct {
	cpu     float64 // seconds of CPU per second
	written float64 // bytes per second
}

// takeUsage adds up the processes; one that is gone counts nothing.
func takeUsage(pids []int) usage {
	u := usage{at: time.Now()}
	for _, pid := range pids {
		u.cpu += cpuTime(pid)
		u.written += statusNumber(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
	}
	return u
}

func (u usage) since(before usage) usageRate {
	seconds := u.at.Sub(before.at).Seconds()
	return usageRate{
		cpu:     (u.cpu - before.cpu).Seconds() / seconds,
		written: float64(u.written-before.written) / seconds,
	}
}

// cpuTime reads the CPU clock of another process, threads that have ended
// included, in nanoseconds where /proc/PID/stat counts ticks of 10 ms. The clock
// id is formed as clock_getcpuclockid(3) does.
func cpuTime(pid int) time.Duration {
	const wholeProcess = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|wholeProcess), &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// processorTime adds up, over all processors since the start of the machine, the
// time they were busy (or stolen by a hypervisor) and all time; see proc_stat(5).
func processorTime() (busy, all time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	fields := bytes.Fields(line)
	for i, field := range fields[min(1, len(fields)):min(9, len(fields))] {
		ticks, _ := strconv.ParseInt(string(field), 10, 64)
		n := time.Duration(ticks) * tick
		all += n
		if i != 3 && i != 4 { // idle and waiting for the disk
			busy += n
		}
	}
	return busy, max(all, 1)
}

// residentMemory returns VmRSS of a process in bytes, 0 if it is gone.
func residentMemory(pid int) int64 {
	return statusNumber(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:") << 10
}

// statusNumber reads the number after a label at the start of a line.
func statusNumber(path, label string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(label)); ok {
			fields := bytes.Fields(rest)
			if len(fields) == 0 {
				return 0
			}
			n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
			return n
		}
	}
	return 0
}
