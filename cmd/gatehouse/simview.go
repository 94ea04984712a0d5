package main

import (
	"context"
	"sync"

	"gatehouse/internal/door/stationsim"
)

// view writes the events of simulated stations: with --json every one, else a line for
// each that is not just a report. It cancels the simulation when writing fails.
type view struct {
	*app
	cancel context.CancelFunc
	width  int // of the column with the station

	mu sync.Mutex // mu guards w
	w  *lines
}

func (v *view) put(e stationsim.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.json:
		v.w.err = v.document(e)
	case e.Kind != stationsim.Reported:
		v.w.row([]int{0, v.width}, v.local(e.Time.Time), "station "+e.Station.String(), eventText(e))
	}
	if v.w.err != nil {
		v.cancel()
	}
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

func (v *view) sumUp(fleet *stationsim.Fleet) {
	commands, opened := 0, 0
	for _, s := range fleet.Statuses() {
		commands += s.Commands
		opened += s.Opened
	}
	v.w.printf("%s received, %s.", plural(commands, "command"), plural(opened, "opening"))
}
