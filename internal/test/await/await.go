// Package await holds the one way in which a test waits for something that must happen
// in real time: it asks again until it has happened. How long that takes decides nothing,
// so a slow or busy machine changes no verdict. Only a test of the whole tree's health
// needs the bound, [Patience], to end at all when the thing never happens.
//
// Where the code under test can run in virtual time, testing/synctest is better: there no
// wait takes any time.
package await

import (
	"context"
	"testing"
	"time"
)

// Patience bounds each wait. It is no measure of speed: beside four busy processes on two
// cores, the longest wait of the tree takes a tenth of it. The emulated board and the demo,
// which are no Go tests, have their own.
const Patience = 3 * time.Minute

// every is the time between two looks at a condition.
const every = 10 * time.Millisecond

// Until waits for the condition, which it asks again and again from the test's goroutine,
// and ends the test where it never holds. what is a sentence for that failure: "the
// station is online".
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.NewTimer(Patience)
	defer end.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// Receive waits for a value on the channel, or for its end, and returns the value. It ends
// the test where neither comes.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	end := time.NewTimer(Patience)
	defer end.Stop()
	select {
	case value := <-from:
		return value
	case <-end.C:
		t.Fatalf("waited in vain: %s", what)
		panic("unreachable")
	}
}

// Context returns a context for one call that must come to an end: it is cancelled after
// [Patience], and when the test ends.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Deadline returns the time at which a wait that begins now has been in vain, for the
// deadline of a connection.
func Deadline() time.Time { return time.Now().Add(Patience) }
