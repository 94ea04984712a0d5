package link

import (
	"slices"
	"sync"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
)

const (
	// maxResults bounds the answers that wait for the broker.
	maxResults = 256
	// resultLife is how long an answer is worth sending.
	resultLife = 5 * time.Minute
	// resultWindow is how many answers may be in flight.
	resultWindow = 64
)

// results holds the answers to commands until the broker has acknowledged them, over
// the loss of connections, but not over a restart: what a command did stands in the
// journal. Its methods are safe for concurrent use. An answer may be published twice.
type results struct {
	mu      sync.Mutex // mu guards waiting and what is in it
	waiting []*waitingResult
}

// waitingResult is an answer that the broker has not acknowledged.
type waitingResult struct {
	api.Result
	put time.Time
	out bool // in flight
}

// put adds an answer. It never blocks. Where there are too many, the oldest refusal is
// dropped, and only without one the oldest answer to a command that was carried out: a
// flood of refused commands keeps no outcome from the cloud. Of equal refusals one waits.
func (r *results) put(result api.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.waiting = slices.DeleteFunc(r.waiting, func(w *waitingResult) bool {
		again := result.Reason != "" && w.Reason == result.Reason && w.ID == result.ID
		return again || now.Sub(w.put) >= resultLife
	})
	if len(r.waiting) >= maxResults {
		oldest := max(slices.IndexFunc(r.waiting, func(w *waitingResult) bool { return w.Reason != "" }), 0)
		r.waiting = slices.Delete(r.waiting, oldest, oldest+1)
	}
	r.waiting = append(r.waiting, &waitingResult{Result: result, put: now})
}

// again has a new session send what the one before has not delivered.
func (r *results) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		w.out = false
	}
}

// forget drops all answers.
func (r *results) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
}

// next returns the oldest answer that is not in flight, if there is one.
func (r *results) next() (next *waitingResult, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if !w.out && time.Since(w.put) < resultLife {
			w.out = true
			return w, true
		}
	}
	return nil, false
}

// done drops an answer that the broker has.
func (r *results) done(w *waitingResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(other *waitingResult) bool { return other == w })
}

// sendResults publishes the answers that wait, as many as may be in flight.
func (s *session) sendResults() {
	for s.answers < resultWindow {
		w, ok := s.results.next()
		if !ok {
			return
		}
		s.answers++
		s.send(mqttclient.Message{Topic: api.Topic(s.Gateway, api.ResultLeaf), Payload: api.Encode(w.Result)}, func() {
			s.answers--
			s.results.done(w)
		})
	}
}
