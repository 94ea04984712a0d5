package link

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/cloud/api"
)

const (
	// Records of commands that are refused because no trusted key has signed them: at
	// most unsignedBurst at once and one more per unsignedEvery, so that no client of
	// the broker fills the journal.
	unsignedBurst = 60
	unsignedEvery = 10 * time.Second
	// Refusals of commands that a trusted key has signed are each recorded, once for
	// each reason and jti. Copies are recorded one by one up to copyBurst at once and
	// one more per copyEvery, and counted beyond: the holder of a token may send it for
	// ever.
	copyBurst = 600
	copyEvery = 10 * time.Second
	// maxNoted bounds the refusals that are distinguished from their copies, and
	// notedLife is for how long; more of them in that time are recorded like copies.
	maxNoted  = 4096
	notedLife = time.Hour
)

// noting decides which refusals are recorded one by one. Refusals of unsigned messages
// never displace those of signed ones from the journal. Its methods are safe for
// concurrent use.
type noting struct {
	unsigned *rate.Limiter
	copies   *rate.Limiter
	leftOut  atomic.Int64 // refusals that were not recorded since the last that was

	mu    sync.Mutex // mu guards what follows
	noted map[notedRefusal]struct{}
	since time.Time // when noted was empty
}

// notedRefusal is what makes a refusal a copy of another.
type notedRefusal struct {
	id     string
	reason api.Reason
}

func newNoting() *noting {
	return &noting{
		unsigned: rate.NewLimiter(rate.Every(unsignedEvery), unsignedBurst),
		copies:   rate.NewLimiter(rate.Every(copyEvery), copyBurst),
		noted:    make(map[notedRefusal]struct{}),
	}
}

// allow reports whether a refusal is recorded, and with how many that were left out. One
// that is not is counted.
func (n *noting) allow(r api.Refusal) (leftOut int, ok bool) {
	switch {
	case r.Verified && n.first(notedRefusal{r.ID, r.Reason}, time.Now()):
	case r.Verified && n.copies.Allow():
	case !r.Verified && n.unsigned.Allow():
	default:
		n.leftOut.Add(1)
		return 0, false
	}
	return int(n.leftOut.Swap(0)), true
}

// summary returns how many refusals were left out, when a summary is due.
func (n *noting) summary() (leftOut int, ok bool) {
	if n.leftOut.Load() == 0 || !n.unsigned.Allow() {
		return 0, false
	}
	return int(n.leftOut.Swap(0)), true
}

// first reports whether a refusal is the first of its kind, and no copy.
func (n *noting) first(r notedRefusal, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.since) >= notedLife {
		clear(n.noted)
		n.since = now
	}
	if _, known := n.noted[r]; known || len(n.noted) >= maxNoted {
		return false
	}
	n.noted[r] = struct{}{}
	return true
}
