package station

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// Store keeps stations and their last known states. Each method is one durable
// transaction together with its record. Errors are of kind [fault.Unavailable]
// when the storage fails and [fault.Timeout] when the context ends first; an error
// means that nothing was changed, nor will be. The methods may be called concurrently.
//
// This package hands the changing methods a context that does not end when the
// caller leaves, but has a deadline: only their answer tells whether the change stands.
type Store interface {
	// LoadStations reads every station and every state that was saved.
	LoadStations(context.Context) ([]site.Station, []SavedState, error)
	// AddStation adds a station; [fault.Conflict] when the id or the token is taken.
	AddStation(context.Context, site.Station, site.Record) error
	// UpdateStation replaces name, locks, token and secret of the station of that
	// id; [fault.NotFound] when there is none, [fault.Conflict] when another one has
	// the token.
	UpdateStation(context.Context, site.Station, site.Record) error
	// RemoveStation removes a station with its grants and its state;
	// [fault.NotFound] when there is none.
	RemoveStation(context.Context, site.StationID, site.Record) error
	// SaveStates replaces the saved states of these stations; those that have been
	// removed meanwhile are passed over.
	SaveStates(context.Context, []SavedState) error
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
	Station        site.StationID
	BatteryVoltage *float64 // volts; nil until reported
	Firmware       string   // empty until reported
	LastConnection time.Time
	Locks          []site.Lock
}
