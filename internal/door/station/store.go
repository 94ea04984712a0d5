package station

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// Store keeps stations and their last known states; what administrators change of them
// is stored by package amend. Errors are of kind [fault.Unavailable] when the storage
// fails and [fault.Timeout] when the context ends first. The methods may be called
// concurrently.
type Store interface {
	// LoadStations reads every station and every state that was saved.
	LoadStations(context.Context) ([]site.Station, []SavedState, error)
	// SaveStates replaces the saved states of these stations in one transaction; those of
	// enrolments that have ended meanwhile are passed over.
	SaveStates(context.Context, []SavedState) error
	// Battery reads the saved points of a station's battery, by day.
	Battery(context.Context, site.StationID) ([]BatteryPoint, error)
}

// Journal takes the records of what stations do by themselves.
type Journal interface {
	// AppendLater queues a record. It waits for nothing, calls nothing of this
	// package, and may be called concurrently; records of one caller keep their
	// order.
	AppendLater(site.Record)
}

// SavedState is what is kept of a station's state over a restart.
type SavedState struct {
	At             time.Time // a moment at which all of it was so; a loaded state has none
	Station        site.StationID
	Enrolled       time.Time // when the station was enrolled: another one may have its id since
	BatteryVoltage *float64  // volts; nil until reported
	Firmware       string    // empty until reported
	ByResult       bool      // it answers each command by a result
	LastConnection time.Time
	Locks          []site.Lock
	Alarms         []Alarm
	Point          BatteryPoint // to be added to the battery's, unless it has one of that day; 0 V: none. A loaded state has none
}
