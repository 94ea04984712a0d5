package main

import (
	"context"
	"errors"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
)

// The errors of a worker are known again, and none that it makes up ends the process
// that started it.
func TestFailure(t *testing.T) {
	sent := failureOf(fault.Wrap(fault.Conflict, "It runs", errors.Join(errRuns, backup.ErrBegun)))
	sent.Is = append(sent.Is, -1, 99)
	err := sent.error()
	if !fault.Is(err, fault.Conflict) || !errors.Is(err, errRuns) || !errors.Is(err, backup.ErrBegun) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
