package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// onOneProcessor lets this process, and the programs that it starts, run on the first processor
// alone, until release is called.
func onOneProcessor() (release func(), err error) {
	var before, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("reading the processors: %w", err)
	}
	for n := range len(before) * 64 {
		if before.IsSet(n) {
			first.Set(n)
			break
		}
	}
	if err := setProcessors(&first); err != nil {
		return nil, err
	}
	return func() { _ = setProcessors(&before) }, nil
}

// setProcessors sets the processors of every thread of this process: whichever of them starts
// a program hands them on.
func setProcessors(to *unix.CPUSet) error {
	threads, err := filepath.Glob("/proc/self/task/[0-9]*")
	if err != nil {
		return err
	}
	for _, path := range threads {
		id, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, to); err != nil && !errors.Is(err, unix.ESRCH) { // a thread that has ended
			return fmt.Errorf("choosing the processor: %w", err)
		}
	}
	return nil
}
