package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ledger remembers how to take back what a run does. What is to be done is entered
// before it is begun, so that half of it is taken back too.
type ledger struct{ entries []entry }

// entry takes one thing back. It must do nothing where that was never begun.
type entry struct {
	what string
	undo func(context.Context) error
}

func (l *ledger) enter(what string, undo func(context.Context) error) {
	l.entries = append(l.entries, entry{what, undo})
}

// undo takes everything back, the last first. What fails does not keep the rest from
// being tried.
func (l *ledger) undo(ctx context.Context) error {
	var errs []error
	for _, e := range slices.Backward(l.entries) {
		if err := e.undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.what, err))
		}
	}
	l.entries = nil
	return errors.Join(errs...)
}
