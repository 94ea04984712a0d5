package main

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
)

// The errors of a worker are known again, and its words are fit for root's terminal.
func TestAnswer(t *testing.T) {
	err := answer{}.with(fault.Wrap(fault.Conflict, "It runs\x1b[2J", backup.ErrBegun)).error()
	if !fault.Is(err, fault.Conflict) || !errors.Is(err, backup.ErrBegun) || strings.Contains(fault.Sentence(err), "\x1b") {
		t.Errorf("got %q", err)
	}
}

// No answer of a worker takes the memory of the process that started it.
func TestReadLine_bounded(t *testing.T) {
	var got answer
	endless := strings.NewReader(strings.Repeat("x", 2*maxLine) + "\n")
	if err := readLine(bufio.NewReaderSize(endless, maxLine), &got); err == nil || endless.Len() == 0 {
		t.Errorf("%v, %d bytes are left", err, endless.Len())
	}
}
