package link

import (
	"context"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/cloud/api"
)

const (
	// maxResults bounds the answers that wait for the broker.
	maxResults = 256
	// resultLife is how long an answer is worth sending.
	resultLife = 5 * time.Minute
	// resultWindow is how many answers may be on their way.
	resultWindow = 64
)

// results holds the answers to commands until the broker has acknowledged them, over
// the loss of connections, but not over a restart: what a command did stands in the
// journal. Its methods are safe for concurrent use.
//
// A session calls again when it begins, sends what next gives, and says done when the
// broker has acknowledged it. What was not, the next session is given again, and it may
// come twice.
type results struct {
	added chan struct{} // capacity 1: something may be there to be sent

	mu      sync.Mutex // mu guards what follows
	last    uint64     // the last token
	waiting []waitingResult
}

// waitingResult is an answer that the broker has not acknowledged.
type waitingResult struct {
	api.Result
	token uint64 // names it
	put   time.Time
	out   bool // with the present session
}

func newResults() *results { return &results{added: make(chan struct{}, 1)} }

// put has an answer sent. It never blocks. Where there are too many, the oldest refusal
// gives way, and only without one the oldest answer to a command that was carried out: who
// floods the gateway with rubbish keeps no outcome from the cloud. Of equal refusals one
// waits.
func (r *results) put(result api.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.waiting = slices.DeleteFunc(r.waiting, func(w waitingResult) bool {
		again := result.Reason != "" && w.Reason == result.Reason && w.ID == result.ID
		return again || now.Sub(w.put) >= resultLife
	})
	if len(r.waiting) >= maxResults {
		oldest := max(slices.IndexFunc(r.waiting, func(w waitingResult) bool { return w.Reason != "" }), 0)
		r.waiting = slices.Delete(r.waiting, oldest, oldest+1)
	}
	r.last++
	r.waiting = append(r.waiting, waitingResult{Result: result, token: r.last, put: now})
	r.wake()
}

// wake says that something may be there; mu is held.
func (r *results) wake() {
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// again says that a new session sends: what the one before did not bring home is given
// out once more.
func (r *results) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		r.waiting[i].out = false
	}
	r.wake()
}

// forget drops all answers.
func (r *results) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
}

// next gives the oldest answer that the session does not have yet, if there is one.
func (r *results) next() (result api.Result, token uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		if w := &r.waiting[i]; !w.out && time.Since(w.put) < resultLife {
			w.out = true
			return w.Result, w.token, true
		}
	}
	return api.Result{}, 0, false
}

// done says that the broker has an answer.
func (r *results) done(token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(w waitingResult) bool { return w.token == token })
}

// sendResults sends the answers to commands until ctx ends, or fails when the connection
// is of no use any more.
func (s *session) sendResults(ctx context.Context) error {
	s.results.again()
	var sent flight[uint64] // tokens
	timer := time.NewTimer(deliveryPatience)
	defer timer.Stop()
	for {
		for len(sent.all) < resultWindow {
			result, token, ok := s.results.next()
			if !ok {
				break
			}
			sent.add(s.say(api.ResultLeaf, result), token)
		}
		left, _ := sent.patience()
		timer.Reset(left)
		select {
		case <-ctx.Done():
			return nil
		case <-s.results.added:
		case <-sent.arrived():
			token, err := sent.land()
			if err != nil {
				return err
			}
			s.results.done(token)
		case <-timer.C:
			if _, err := sent.patience(); err != nil {
				return err
			}
		}
	}
}
