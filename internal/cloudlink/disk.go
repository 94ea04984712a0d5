package cloudlink

import (
	"context"
	"log/slog"
	"sync"

	"gatehouse/internal/fault"
)

// disk is how the storage of the ids of commands does. A call that has begun may take as
// long as the hardware likes, whatever its context says: nobody waits for one longer than
// his own does, and what it says at last is heard when it comes. As long as one is late
// no other begins, so that no more of them hang than were under way when the first did.
type disk struct {
	log   *slog.Logger
	woken chan struct{} // capacity 1: a late call has ended

	mu     sync.Mutex // mu guards what follows
	late   int        // calls for which nobody waits any more
	failed bool       // what the last call to end said
	slow   bool       // and it said so only when its time was up
	told   bool       // that the storage fails
}

func newDisk(log *slog.Logger) disk { return disk{log: log, woken: make(chan struct{}, 1)} }

// errLate says that the disk was not asked.
var errLate = fault.New(fault.Unavailable, "the storage has not answered yet")

// stalled reports whether the disk does not answer in time: nobody waits for it. One that
// fails at once is asked each time, so that nothing is missed when it works again.
func (d *disk) stalled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.slow || d.late > 0
}

// ask has the disk do something, and gives what it says, or the end of ctx where that
// comes first; errLate when do is not called at all.
func (d *disk) ask(ctx context.Context, do func(context.Context) error) error {
	if d.hangs() {
		return errLate
	}
	said := make(chan error, 1)
	ended, left := false, false // mu guards them
	go func() {                 // ends with the call
		err := do(ctx)
		d.hear(err, func() {
			ended, d.failed, d.slow = true, !answered(err), fault.Is(err, fault.Timeout)
			if left {
				d.late--
			}
		})
		d.wake()
		said <- err
	}()
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
	}
	d.hear(ctx.Err(), func() {
		if left = !ended; left {
			d.late++
		}
	})
	if !left {
		return <-said
	}
	return fault.Wrap(fault.Timeout, "the storage does not answer", ctx.Err())
}

// answered reports whether that is what a disk says that works.
func answered(err error) bool {
	return err == nil || fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)
}

// hear changes what is known of the disk, and logs when that turns.
func (d *disk) hear(err error, change func()) {
	d.mu.Lock()
	change()
	bad := d.failed || d.late > 0
	turned := bad != d.told
	d.told = bad
	d.mu.Unlock()
	switch {
	case turned && bad:
		d.log.Error("storage fails; doors still open, the ids of cloud commands are kept in memory", "error", err)
	case turned:
		d.log.Info("the ids of cloud commands are kept on disk again")
	}
}

// hangs reports whether a call is late.
func (d *disk) hangs() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late > 0
}

func (d *disk) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// idle waits until no call is late, or until ctx ends: then it is false.
func (d *disk) idle(ctx context.Context) bool {
	for d.hangs() {
		select {
		case <-d.woken:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
