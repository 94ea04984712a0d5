package mqttclient

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Backoff bounds the wait before connecting again. The first wait is drawn between
// Least and four times as much, and each wait after a failure from a span half as long
// again, up to Most: clients that lost the same broker at the same moment come back
// spread, over about as long as it was gone, and none much later than that.
type Backoff struct {
	Least time.Duration // zero: 1 s
	Most  time.Duration // zero: 5 min
}

// stable is how long a connection lasted after which the waits start anew.
const stable = time.Minute

// Loss is the end of a connection, or of an attempt to make one.
type Loss struct {
	Err    error
	Advice string        // what to do about it; "" where nothing is known
	Wait   time.Duration // until the next attempt

	// New reports whether the reason is worth a line in the log: it is the first of its kind
	// since a connection lasted. An outage of weeks has a line for each reason.
	New bool
	// Flaps reports whether connections come and go for a reason that is not new, so that
	// the next one is not worth a line either.
	Flaps bool
}

// maxReasons bounds the reasons of an outage that are new: a peer may choose their text.
const maxReasons = 16

// Retry calls connect, which makes a connection and serves it until it is lost, again and
// again until ctx ends. After each call but the last it calls lost.
func (b Backoff) Retry(ctx context.Context, connect func(context.Context) error, lost func(Loss)) {
	least, most := cmp.Or(b.Least, time.Second), cmp.Or(b.Most, 5*time.Minute)
	first := min(4*least, most)
	known, flaps := make(map[string]bool), false // by kindOf
	for span := first; ; span = min(span+span/2, most) {
		began := time.Now()
		err := connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= stable {
			span = first
			clear(known)
		}
		l := Loss{Err: err, Wait: least + rand.N(max(span-least, 1))} //nolint:gosec // spreads retries, guards nothing
		failed, unmade := errors.AsType[*DialError](err)
		if unmade {
			l.Advice = failed.Advice
		}
		if kind := kindOf(err); !known[kind] && len(known) < maxReasons {
			known[kind], l.New = true, true
		}
		flaps = !l.New && (flaps || !unmade)
		l.Flaps = flaps
		lost(l)
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.Wait):
		}
	}
}

// kindOf returns the text of an error without the words that differ between two attempts
// that fail alike: addresses, ports, times and numbers.
func kindOf(err error) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(err.Error()), func(word string) bool {
		return strings.ContainsAny(word, "0123456789")
	}), " ")
}
