package stationlink

import (
	"time"

	"gatehouse/internal/site"
)

// acquire acquires a token of each semaphore, or returns the outcome of a call that could
// not get one.
func (w *wire) acquire(semaphores []chan struct{}, timer *time.Timer) (outcome site.Outcome) {
	for i, semaphore := range semaphores {
		select {
		case semaphore <- struct{}{}:
			continue
		case <-w.gone:
			outcome = site.StationGone
		case <-timer.C:
			outcome = site.Expired
		}
		release(semaphores[:i])
		return outcome
	}
	return ""
}

// release releases a token of each of those semaphores.
func release(semaphores []chan struct{}) {
	for _, s := range semaphores {
		<-s
	}
}

// free releases the tokens of a call; the mu of the peer is held.
func (c *call) free() {
	release(c.tokens)
	c.tokens = nil
}

// resetOverdue resets the connection of a station that has not acknowledged a command whose
// deadline has passed, even if it has answered it: its slots would never be released.
func (w *wire) resetOverdue() {
	w.peer.mu.Lock()
	overdue := false
	for _, c := range w.peer.calls {
		overdue = overdue || c.wire == w && c.tokens != nil && c.left() <= 0
	}
	w.peer.mu.Unlock()
	if overdue {
		w.conn.Reset("command not acknowledged in time")
	}
}
