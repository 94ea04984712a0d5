package kit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// Stations are what a watch reads; package station satisfies it. Every method is quick
// and safe for concurrent use.
type Stations interface {
	// State returns a copy of what is known of a station.
	State(id site.StationID) (site.StationState, bool)
	// EventsSince returns the events after a number, oldest first: of one station, or of
	// all when station is 0; gap when some after it are not kept any more.
	EventsSince(after uint64, station site.StationID) (events []station.Event, gap bool)
	// Latest returns the number of the newest event of all stations.
	Latest() uint64
	// Subscribe returns a channel that wakes at every event, and when a station was
	// changed or removed, until cancel is called.
	Subscribe() (wake <-chan struct{}, cancel func())
}

// Watch is a stream of stations as JSON lines: a [WatchStart] with one line for each
// station, then the line of each that changed or came into view, as it is by then, and a
// [WatchRemoved] for one that went out of it. When more changed than is kept, it starts
// again.
type Watch struct {
	Stations Stations
	Clock    site.Clock
	// Visible lists the stations that the caller may see now, by id. The watch calls it
	// when one changes, and every second unless All.
	Visible func() []Sight
	All     bool // what is visible changes with the stations alone
	// Line returns the line of a station; of a closed one it shows no state.
	Line func(Sight, site.StationState) any
}

// Sight is a station in a watch.
type Sight struct {
	site.Station
	OpensAgain site.Timestamp // when the caller may use it again; zero: it is not closed
}

// Open returns stations that are not closed.
func Open(stations []site.Station) []Sight {
	all := make([]Sight, len(stations))
	for i, st := range stations {
		all[i].Station = st
	}
	return all
}

// WatchStart is the line before those of all stations.
type WatchStart struct {
	Time  site.Timestamp `json:"time"`  // of the gateway's clock, against which ages count
	Count int            `json:"count"` // how many lines follow that belong to it
}

// WatchRemoved is the line of a station that was removed, or that the caller may no
// longer see.
type WatchRemoved struct {
	ID      site.StationID `json:"stationId"`
	Removed bool           `json:"removed"` // true
}

// Watch answers with a watch, until the stream ends: see [Exchange.Follow].
func (x *Exchange) Watch(what Watch) error {
	return x.Follow(Lines(), nil, (&watcher{Watch: what, seed: maphash.MakeSeed()}).run)
}

// watcher is one client of a watch. It keeps marks of the stations: a thousand watchers
// that kept the stations themselves would take the memory of a board.
type watcher struct {
	Watch
	seed  maphash.Seed             // of the marks
	seen  uint64                   // every event up to this number has been looked at
	shown map[site.StationID]shown // what its last line showed; nil at the start
}

// shown is what the last line of a station showed.
type shown struct {
	mark  uint64 // of the enrolment
	stale bool   // the state has changed since
}

func (w *watcher) run(s *Stream) error {
	wake, cancel := w.Stations.Subscribe()
	defer cancel()
	err := w.look(s)
	for err == nil && s.wait(wake, !w.All) {
		err = w.look(s)
	}
	return err
}

// look sends what has changed since the last look, or everything. The number is read
// first: an event in between is sent again, none is omitted.
func (w *watcher) look(s *Stream) error {
	events, whole := []station.Event(nil), w.shown == nil
	if !whole {
		events, whole = w.Stations.EventsSince(w.seen, 0)
	}
	if whole {
		w.seen, w.shown, events = w.Stations.Latest(), make(map[site.StationID]shown), nil
	}
	for _, e := range events {
		w.seen = e.Number
		if before, there := w.shown[e.State.ID]; there {
			w.shown[e.State.ID] = shown{before.mark, true}
		}
	}
	var lines bytes.Buffer
	err := w.write(json.NewEncoder(&lines), w.Visible())
	if err == nil && whole {
		err = s.SendLine(WatchStart{site.At(w.Clock.Now()), len(w.shown)})
	}
	if err != nil || lines.Len() == 0 {
		return err
	}
	return s.Send(lines.Bytes())
}

// write writes the lines of the stations that came into view, of those that changed, by
// events or in their enrolment, which is no event, and of those that went out of view.
func (w *watcher) write(out *json.Encoder, visible []Sight) error {
	for _, st := range visible {
		mark, closed := w.mark(st), !st.OpensAgain.IsZero()
		if before, there := w.shown[st.ID]; there && before.mark == mark && (closed || !before.stale) {
			continue
		}
		if state, ok := w.Stations.State(st.ID); ok { // it may have been removed meanwhile
			w.shown[st.ID] = shown{mark: mark}
			if err := out.Encode(w.Line(st, state)); err != nil {
				return err
			}
		}
	}
	if len(w.shown) == len(visible) {
		return nil // they are the same
	}
	for _, id := range slices.Sorted(maps.Keys(w.shown)) {
		if _, there := slices.BinarySearchFunc(visible, id, byID); !there {
			delete(w.shown, id)
			if err := out.Encode(WatchRemoved{id, true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark returns a number that another enrolment does not have, but for one in 2^64.
func (w *watcher) mark(st Sight) uint64 { return maphash.Comparable(w.seed, st) }

func byID(st Sight, id site.StationID) int { return cmp.Compare(st.ID, id) }
