package mqttclient

import (
	"cmp"
	"context"
	"math/rand/v2"
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

// Retry calls connect, which makes a connection and serves it until it is lost, again and
// again until ctx ends. After each call but the last it calls lost with the error and the
// wait before the next.
func (b Backoff) Retry(ctx context.Context, connect func(context.Context) error, lost func(err error, wait time.Duration)) {
	least, most := cmp.Or(b.Least, time.Second), cmp.Or(b.Most, 5*time.Minute)
	first := min(4*least, most)
	for span := first; ; span = min(span+span/2, most) {
		began := time.Now()
		err := connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= stable {
			span = first
		}
		wait := least + rand.N(max(span-least, 1)) //nolint:gosec // spreads retries, guards nothing
		lost(err, wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
