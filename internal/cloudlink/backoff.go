package cloudlink

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long the link waits before it tries again. The first wait is drawn
// between Least and four times as much, and each wait after a failure from a span
// twice as long, up to Most: gateways that lost the same broker at the same moment come
// back spread, and the more of them fail the wider.
type Backoff struct {
	Least  time.Duration // zero: 1 s
	Most   time.Duration // zero: 5 min
	Stable time.Duration // a connection that lasted as long starts anew; zero: 1 min
}

// tries is one run of failures.
type tries struct {
	Backoff
	span time.Duration // the longest that the next wait may be
}

func (b Backoff) start() *tries {
	if b.Least <= 0 {
		b.Least = time.Second
	}
	if b.Most < b.Least {
		b.Most = max(5*time.Minute, b.Least)
	}
	if b.Stable <= 0 {
		b.Stable = time.Minute
	}
	return &tries{Backoff: b, span: b.first()}
}

func (b Backoff) first() time.Duration { return min(4*b.Least, b.Most) }

// next gives the wait after a connection, or the attempt at one, that lasted so long.
func (t *tries) next(lasted time.Duration) time.Duration {
	if lasted >= t.Stable {
		t.span = t.first()
	}
	span := t.span
	t.span = min(2*t.span, t.Most)
	if span <= t.Least {
		return t.Least
	}
	return t.Least + rand.N(span-t.Least) //nolint:gosec // spreads retries, guards nothing
}
