package kit

import (
	"context"
	"time"

	"gatehouse/internal/fault"
)

// grace is how long a call may take to notice that its context has ended.
const grace = time.Second

// result is the end of a call.
type result[T any] struct {
	value T
	err   error
}

// Await bounds how long a request waits for a call that may outlive it: a change under
// way in the store ends only with the answer of the disk, because what it did decides
// what memory must hold. It runs call in a goroutine of its own and returns its result. If
// ctx ends and call does not return within a second, it returns Unavailable and leaves
// call alone: its change may still take effect. A panic of call is an error, with its place
// for the log.
func Await[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ended := make(chan result[T], 1)
	go func() {
		var r result[T]
		defer func() {
			if v := recover(); v != nil {
				r.err = panicError(v)
			}
			ended <- r
		}()
		r.value, r.err = call(ctx)
	}()
	select {
	case r := <-ended:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-ended:
		return r.value, r.err
	case <-time.After(grace):
		var none T
		return none, fault.New(fault.Unavailable, "The storage does not answer; what was asked for may still take effect")
	}
}
