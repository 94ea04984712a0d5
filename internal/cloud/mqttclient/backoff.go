package mqttclient

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait before connecting again. The first wait is drawn between
// Least and four times as much, and each wait after a failure from a span half as long
// again, up to Most: clients that lost the same broker at the same moment come back
// spread, over about as long as it was gone, and none much later than that.
type Backoff struct {
	Least  time.Duration // zero: 1 s
	Most   time.Duration // zero: 5 min
	Stable time.Duration // a connection that lasted as long starts anew; zero: 1 min
}

// Tries is one run of attempts. It belongs to one goroutine.
type Tries struct {
	Backoff
	span time.Duration // the longest that the next wait may be
}

// Start begins a run of attempts.
func (b Backoff) Start() *Tries {
	if b.Least <= 0 {
		b.Least = time.Second
	}
	if b.Most < b.Least {
		b.Most = max(5*time.Minute, b.Least)
	}
	if b.Stable <= 0 {
		b.Stable = time.Minute
	}
	return &Tries{Backoff: b, span: b.first()}
}

func (b Backoff) first() time.Duration { return min(4*b.Least, b.Most) }

// Next gives the wait after a connection, or the attempt at one, that lasted so long.
func (t *Tries) Next(lasted time.Duration) time.Duration {
	if lasted >= t.Stable {
		t.span = t.first()
	}
	span := t.span
	t.span = min(t.span+t.span/2, t.Most)
	if span <= t.Least {
		return t.Least
	}
	return t.Least + rand.N(span-t.Least) //nolint:gosec // spreads retries, guards nothing
}
