package station

import (
	"sync"

	"gatehouse/internal/site"
)

// keptEvents is how many events are remembered for those who come back.
const keptEvents = 1024

// Event is a change of a station: its status, battery, firmware or a lock. It
// shares State with everyone who reads the same event: it must not be changed.
type Event struct {
	Number uint64 // 1, 2, 3 … within one boot, without gaps
	State  site.StationState
}

// eventLog numbers and remembers events and wakes those that wait for them. Safe for
// concurrent use.
type eventLog struct {
	mu        sync.Mutex // mu guards what follows
	latest    uint64
	ring      []Event                   // event n stands at n % keptEvents once the ring is full
	forgotten map[site.StationID]uint64 // the newest forgotten event of each station
	waiting   map[chan struct{}]struct{}
}

func newEventLog() *eventLog {
	return &eventLog{forgotten: make(map[site.StationID]uint64), waiting: make(map[chan struct{}]struct{})}
}

func (g *eventLog) add(state site.StationState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	event := Event{Number: g.latest + 1, State: state}
	if len(g.ring) < keptEvents {
		g.ring = append(g.ring, event)
	} else {
		old := &g.ring[g.latest%keptEvents]
		g.forgotten[old.State.ID] = old.Number
		*old = event
	}
	g.latest++
	g.wakeAll()
}

// wake wakes those that wait, for a change that is no event.
func (g *eventLog) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakeAll()
}

// wakeAll wakes those that wait; mu is held.
func (g *eventLog) wakeAll() {
	for wake := range g.waiting {
		select {
		case wake <- struct{}{}:
		default: // it has not yet looked after the last one: one wake-up does for both
		}
	}
}

// EventsSince returns the remembered events after that number, oldest first: of one
// station, or of all when station is 0. gap reports that some were forgotten, or
// that no such number was assigned in this boot: read the state anew.
//
// To miss nothing, first Subscribe, then read in turns: EventsSince the last number that
// was seen, then wait to be woken.
func (g *eventLog) EventsSince(after uint64, station site.StationID) (events []Event, gap bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if after > g.latest {
		return nil, true
	}
	oldest := g.latest - uint64(len(g.ring)) + 1
	gap = after+1 < oldest
	if station != 0 {
		gap = g.forgotten[station] > after
	}
	for n := max(after+1, oldest); n <= g.latest; n++ {
		if event := g.ring[(n-1)%keptEvents]; station == 0 || event.State.ID == station {
			events = append(events, event)
		}
	}
	return events, gap
}

// Latest is the number of the newest event; 0 before the first.
func (g *eventLog) Latest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest
}

// Subscribe returns a channel that receives whenever there are new events, and when
// a station was changed or removed; several may make one wake-up. cancel ends it and may be called again; the channel is
// never closed.
func (g *eventLog) Subscribe() (wake <-chan struct{}, cancel func()) {
	waiter := make(chan struct{}, 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[waiter] = struct{}{}
	return waiter, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.waiting, waiter)
	}
}
