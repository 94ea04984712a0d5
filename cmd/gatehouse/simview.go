package main

import (
	"sync/atomic"

	"gatehouse/internal/door/stationsim"
)

// feed carries the events of the stations to the view. A view that cannot follow
// holds up no station: what does not fit is counted.
type feed struct {
	events chan stationsim.Event
	lost   atomic.Int64
}

func newFeed() *feed { return &feed{events: make(chan stationsim.Event, 4096)} }

func (f *feed) put(e stationsim.Event) {
	select {
	case f.events <- e:
	default:
		f.lost.Add(1)
	}
}

// close ends the feed, after the last put.
func (f *feed) close() { close(f.events) }

// show writes the events of the stations until the feed ends: with --json every one, else
// a line for each that is not just a report.
func (a *app) show(fleet *stationsim.Fleet, f *feed, broker string) error {
	w, width := a.text(), 0
	for _, s := range fleet.Statuses() {
		width = max(width, len("station "+s.ID.String()))
	}
	if !a.json {
		w.printf("%s on %s; interrupt to end.", plural(len(fleet.Stations), "simulated station"), broker)
	}
	for e := range f.events {
		switch {
		case a.json:
			w.err = a.document(e)
		case e.Kind != stationsim.Reported:
			w.row([]int{0, width}, a.local(e.Time.Time), "station "+e.Station.String(), eventText(e))
		}
		if w.err != nil {
			return w.err
		}
	}
	if !a.json {
		sumUp(w, fleet, f)
	}
	return w.err
}

// eventText returns "opened lock-1" and the like.
func eventText(e stationsim.Event) string {
	text := string(e.Kind)
	if e.Lock != "" {
		text += " " + e.Lock
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func sumUp(w *lines, fleet *stationsim.Fleet, f *feed) {
	commands, opened := 0, 0
	for _, s := range fleet.Statuses() {
		commands += s.Commands
		opened += s.Opened
	}
	w.printf("%s received, %s.", plural(commands, "command"), plural(opened, "opening"))
	if lost := f.lost.Load(); lost > 0 {
		w.printf("%d events came too fast to be shown.", lost)
	}
}
