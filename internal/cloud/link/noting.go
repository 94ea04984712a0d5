package link

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/cloud/api"
)

const (
	// Refusals of commands that a trusted key has signed are each recorded, once for each
	// reason and jti. Their copies, and refusals of commands that no trusted key has
	// signed, are recorded one by one up to refusalBurst at once and one more per
	// refusalEvery, and counted beyond: no client of the broker fills the journal.
	refusalBurst = 60
	refusalEvery = 10 * time.Second
	// maxNoted bounds the refusals that are distinguished from their copies, and
	// notedLife is for how long; more of them in that time are recorded like copies.
	maxNoted  = 4096
	notedLife = time.Hour
)

// noting decides which refusals are recorded one by one. Refusals of unsigned messages
// never displace those of signed ones from the journal. Its methods are safe for
// concurrent use.
type noting struct {
	limit *rate.Limiter

	mu      sync.Mutex         // mu guards what follows
	leftOut int                // refusals that were not recorded since the last that was
	noted   map[[2]string]bool // by id and reason
	since   time.Time          // when noted was empty
}

func newNoting() *noting {
	return &noting{limit: rate.NewLimiter(rate.Every(refusalEvery), refusalBurst), noted: make(map[[2]string]bool)}
}

// allow reports whether a refusal is recorded, and with how many that were left out. One
// that is not is counted.
func (n *noting) allow(r api.Refusal) (leftOut int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !(r.Verified && n.first([2]string{r.ID, string(r.Reason)}, time.Now())) && !n.limit.Allow() {
		n.leftOut++
		return 0, false
	}
	leftOut, n.leftOut = n.leftOut, 0
	return leftOut, true
}

// summary returns how many refusals were left out, when a summary is due.
func (n *noting) summary() (leftOut int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leftOut == 0 || !n.limit.Allow() {
		return 0, false
	}
	leftOut, n.leftOut = n.leftOut, 0
	return leftOut, true
}

// first reports whether a refusal is the first of its kind, and no copy. The lock is held.
func (n *noting) first(r [2]string, now time.Time) bool {
	if now.Sub(n.since) >= notedLife {
		clear(n.noted)
		n.since = now
	}
	if n.noted[r] || len(n.noted) >= maxNoted {
		return false
	}
	n.noted[r] = true
	return true
}
