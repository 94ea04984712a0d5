package access

import (
	"context"
	"errors"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
)

const (
	// waitingStrangers and waitingDevices bound the logins of a lane that wait for a slot.
	// The first follows from the contract, section 1: a network gets in while fewer than 64
	// others try.
	waitingStrangers, waitingDevices = 64, 32
	// Waiting bounds the logins that wait for a slot. Package gateway requires that they
	// leave room for unlocks.
	Waiting = waitingStrangers + waitingDevices
	// maxDevice and maxStranger bound those of one smallest flow: a known device, and the
	// address of others.
	maxDevice, maxStranger = 16, 4
	// slotRetry is when a login that found no room should be retried.
	slotRetry = 2 * time.Second
)

// lane is one of the groups that take turns at the slots.
type lane uint8

const (
	laneStranger lane = iota // devices that are not known for the account
	laneDevice               // devices that are
	laneAdmin                // administrators' changes, which are not bounded
)

// flow identifies what has turns: a lane (only lane set), an account or a network within
// the lane, the fresh attempts or the others of those, or one client.
type flow struct {
	lane    lane
	account [32]byte
	fresh   bool
	client  string
}

// path is the position of a waiter, from its lane on.
type path [4]flow

// newQueue returns the queue for the slots in which passwords are hashed: each takes
// megabytes of memory and all of a core.
func newQueue(slots int) *limit.Queue[flow] {
	return limit.NewQueue(slots, limit.OldestFirst, func(level int, of flow) int {
		switch level {
		case 0:
			return [...]int{laneStranger: waitingStrangers, laneDevice: waitingDevices, laneAdmin: 0}[of.lane]
		case len(path{}) - 1:
			return [...]int{laneStranger: maxStranger, laneDevice: maxDevice, laneAdmin: 0}[of.lane]
		}
		return 0
	})
}

// enter waits for a slot and returns the function that releases it. Throttled where there
// is no room, or the room goes to a flow that has less; Unavailable when ctx ends first.
func (h *hashing) enter(ctx context.Context, at path) (leave func(), err error) {
	leave, err = h.queue.Enter(ctx, at[:]...)
	switch {
	case errors.Is(err, limit.ErrFull):
		return nil, fault.Throttle("Too many logins at once; try again", slotRetry)
	case err != nil:
		return nil, unavailable("waiting to hash a password", err)
	}
	return leave, nil
}
