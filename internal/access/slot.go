package access

import (
	"context"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
)

const (
	// maxWaiting bounds the logins that wait for a slot.
	maxWaiting = 64
	// slotRetry is when a login that found the queue full should come back.
	slotRetry = 2 * time.Second
)

// slots bounds how many passwords are hashed at once: each takes megabytes of
// memory and all of a core.
type slots struct {
	taken   chan struct{} // its capacity is the number of slots
	waiting atomic.Int32
}

func newSlots(n int) *slots { return &slots{taken: make(chan struct{}, n)} }

// queue gets a slot for a login. It is Throttled at once when too many wait
// already, and Unavailable when ctx ends first.
func (s *slots) queue(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case s.taken <- struct{}{}:
			return nil
		default:
		}
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaiting {
		return fault.Throttle("Too many logins at once; try again", slotRetry)
	}
	return s.wait(ctx)
}

// wait gets a slot for an administrator, who is not refused for the number of
// logins. It is Unavailable when ctx ends first.
func (s *slots) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable("waiting to hash a password", err)
	}
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unavailable("waiting to hash a password", ctx.Err())
	}
}

// leave gives the slot back.
func (s *slots) leave() { <-s.taken }
