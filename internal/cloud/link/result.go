package link

import (
	"slices"
	"sync"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
)

const (
	// maxResults bounds the answers that wait.
	maxResults = 256
	// maxFlight is how many messages beside records may be in flight for another state or
	// answer to be sent: a broker that acknowledges slower than they come would take memory
	// without end, and an answer on a slow link would wait for all that were sent before.
	maxFlight = 64
)

// results holds the answers to the commands of one broker that are not in flight, over the loss of
// connections, but not over a restart: the journal has what a command did. Its
// methods are safe for concurrent use.
type results struct {
	mu      sync.Mutex // mu guards waiting
	waiting []api.Result
}

// put adds an answer. It never blocks. Where there are too many, the oldest refusal is
// dropped, and only without one the oldest answer to a command that was carried out: a
// flood of refused commands keeps no outcome from the cloud.
func (r *results) put(result api.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxResults {
		oldest := max(slices.IndexFunc(r.waiting, func(w api.Result) bool { return w.Reason != "" }), 0)
		r.waiting = slices.Delete(r.waiting, oldest, oldest+1)
	}
	r.waiting = append(r.waiting, result)
}

// take removes the oldest answers, at most so many, and returns them.
func (r *results) take(most int) []api.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(most, len(r.waiting))
	oldest := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return oldest
}

// beside is how many messages are in flight that are no records.
func (s *session) beside() int { return len(s.flight) - s.outbox.inFlight }

// answer has an answer sent soon, by this session or the next at this broker. It never blocks.
func (s *session) answer(result api.Result) {
	s.results.put(result)
	s.wakeUp()
}

// sendResults publishes the answers that wait, as many as may be in flight.
func (s *session) sendResults() {
	for _, result := range s.results.take(max(maxFlight-s.beside(), 0)) {
		s.send(mqttclient.Message{Topic: api.Topic(s.Gateway, api.ResultLeaf), Payload: api.Encode(result)}, func() {})
		s.flight[len(s.flight)-1].result = &result
	}
}

// keepResults has the next session send the answers that the broker has not acknowledged.
func (s *session) keepResults() {
	for _, f := range s.flight {
		if f.result != nil {
			s.results.put(*f.result)
		}
	}
}
