package station

import (
	"encoding/json"
	"slices"
	"sync"

	"gatehouse/internal/site"
)

// keptEvents is how many events are remembered for those who come back.
const keptEvents = 1024

// Event is a change of a station: its status, battery, firmware or a lock. It
// shares State with everyone who reads the same event: it must not be changed.
type Event struct {
	Number uint64 // 1, 2, 3 … without gaps, on over an orderly restart
	State  site.StationState

	// JSON returns State as JSON. It is encoded once for everyone who reads the same
	// event: it must not be changed.
	JSON func() ([]byte, error)
}

// eventLog numbers and remembers events and wakes those that wait for them. Safe for
// concurrent use.
type eventLog struct {
	mu        sync.Mutex // mu guards what follows
	latest    uint64
	kept      []Event                          // the last of them is the latest
	forgotten map[site.StationID]uint64        // the newest forgotten event of each station
	waiting   map[chan struct{}]site.StationID // 0: it waits for every station
	adopted   []run                            // the runs of the process before this one, oldest first
}

func newEventLog() *eventLog {
	return &eventLog{forgotten: make(map[site.StationID]uint64), waiting: make(map[chan struct{}]site.StationID)}
}

func (g *eventLog) add(state site.StationState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keep(state)
	g.wakeFor(state.ID)
}

// keep remembers the next event; mu is held.
func (g *eventLog) keep(state site.StationState) {
	g.latest++
	encode := sync.OnceValues(func() ([]byte, error) { return json.Marshal(state) })
	g.kept = append(g.kept, Event{g.latest, state, encode})
	if len(g.kept) > keptEvents {
		g.forgotten[g.kept[0].State.ID] = g.kept[0].Number
		g.kept = slices.Delete(g.kept, 0, 1)
	}
}

// wake wakes those that wait, for a change of a station that is no event.
func (g *eventLog) wake(station site.StationID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakeFor(station)
}

// wakeFor wakes those that wait for a station; mu is held.
func (g *eventLog) wakeFor(station site.StationID) {
	for wake, only := range g.waiting {
		if only != 0 && only != station {
			continue
		}
		select {
		case wake <- struct{}{}:
		default: // it has not yet looked after the last one: one wake-up does for both
		}
	}
}

// EventsSince returns the remembered events after that number, oldest first: of one
// station, or of all when station is 0. gap reports that some were forgotten, or
// that no such number was assigned: read the state anew.
//
// To miss nothing, first Subscribe, then read in turns: EventsSince the last number that
// was seen, then wait to be woken.
func (g *eventLog) EventsSince(after uint64, station site.StationID) (events []Event, gap bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if after > g.latest {
		return nil, true
	}
	forgotten := g.latest - uint64(len(g.kept))
	gap = after < forgotten
	if station != 0 {
		gap = g.forgotten[station] > after
	}
	for _, event := range g.kept[max(after, forgotten)-forgotten:] {
		if station == 0 || event.State.ID == station {
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
// a station was changed or removed; several may make one wake-up. cancel ends it and may
// be called again; the channel is never closed.
func (g *eventLog) Subscribe() (wake <-chan struct{}, cancel func()) { return g.SubscribeTo(0) }

// SubscribeTo is Subscribe for one station.
func (g *eventLog) SubscribeTo(station site.StationID) (wake <-chan struct{}, cancel func()) {
	waiter := make(chan struct{}, 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[waiter] = station
	return waiter, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.waiting, waiter)
	}
}
