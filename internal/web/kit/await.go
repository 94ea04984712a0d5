package kit

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"gatehouse/internal/fault"
)

// grace is how long a call may take to notice that its context has ended.
const grace = time.Second

// Panic is what Await panics with when its call has panicked.
type Panic struct {
	Value any    // what the call panicked with
	Stack []byte // where
}

// String returns the value and the stack as text, which a crash or a server's log prints.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// result is the end of a call.
type result[T any] struct {
	value    T
	err      error
	panicked *Panic
}

// Await bounds how long a request waits for a call that may outlive it: a change under
// way in the store ends only with the answer of the disk, because what it did decides what
// memory must hold. It runs call in a goroutine of its own and returns its result. If ctx ends and call
// does not return within a second, it returns Unavailable and leaves call alone: its
// change may still take effect. A panic of call continues in the caller as a [*Panic],
// unless Await has already returned.
func Await[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ended := make(chan result[T], 1)
	go func() {
		var r result[T]
		defer func() {
			if v := recover(); v != nil {
				r.panicked = &Panic{v, debug.Stack()}
			}
			ended <- r
		}()
		r.value, r.err = call(ctx)
	}()
	select {
	case r := <-ended:
		return r.end()
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-ended:
		return r.end()
	case <-timer.C:
		var none T
		return none, fault.New(fault.Unavailable, "The storage does not answer; what was asked for may still take effect")
	}
}

func (r result[T]) end() (T, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.value, r.err
}
