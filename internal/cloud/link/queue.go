package link

import (
	"sync"
	"time"

	"gatehouse/internal/site"
)

// maxAtStation bounds the commands of the cloud that wait for the answers of one station:
// half of the places that it has with package stationlink. A station that sends no results
// keeps each of them on its place until the deadline, and nothing local may ever wait for
// the cloud.
const maxAtStation = 16

// queues has the commands of each station wait for one another. The zero queues is ready.
// Its methods are safe for concurrent use.
type queues struct {
	mu        sync.Mutex // mu guards byStation, and people in each
	byStation map[site.StationID]*queue
}

// queue is the commands of one station.
type queue struct {
	places chan struct{} // capacity maxAtStation
	people int           // the queue ends with the last of them
}

// enter waits for a place at a station, but no longer than that, and gives what gives it
// back. The time that a command waits here counts for its deadline, as everywhere.
func (q *queues) enter(id site.StationID, patience time.Duration) (leave func()) {
	mine := q.join(id)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case mine.places <- struct{}{}:
		return func() { <-mine.places; q.part(id, mine) }
	case <-timer.C:
		return func() { q.part(id, mine) }
	}
}

func (q *queues) join(id site.StationID) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byStation == nil {
		q.byStation = make(map[site.StationID]*queue)
	}
	mine := q.byStation[id]
	if mine == nil {
		mine = &queue{places: make(chan struct{}, maxAtStation)}
		q.byStation[id] = mine
	}
	mine.people++
	return mine
}

func (q *queues) part(id site.StationID, mine *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if mine.people--; mine.people == 0 {
		delete(q.byStation, id)
	}
}
