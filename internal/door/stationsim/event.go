package stationsim

import "gatehouse/internal/site"

// Kind is a kind of [Event].
type Kind string

// The kinds of events.
const (
	Connected    Kind = "connected"    // connected and subscribed to its commands
	Disconnected Kind = "disconnected" // the connection ended; Detail says why
	Refused      Kind = "refused"      // the broker would not have it; Detail says why
	Received     Kind = "command"      // a command arrived
	Opened       Kind = "opened"       // a lock opened
	Relocked     Kind = "relocked"     // a lock locked itself again
	Jammed       Kind = "jammed"       // a lock jammed instead of opening
	Dropped      Kind = "dropped"      // a command was lost, on purpose or with its connection
	Expired      Kind = "expired"      // a command was ignored, being past its deadline
	Repeated     Kind = "repeated"     // a command id came again and was not acted upon
	Declined     Kind = "declined"     // a command cannot be carried out, such as for a lock that is not there
	DoorOpened   Kind = "door-opened"  // a person opened the door
	DoorClosed   Kind = "door-closed"  // the door closed again
	Reported     Kind = "report"       // a report was sent
)

// Event is one thing that happened to or in a station.
type Event struct {
	Time           site.Timestamp `json:"time"`
	Station        site.StationID `json:"stationId"`
	Kind           Kind           `json:"kind"`
	Lock           string         `json:"lock,omitempty"`
	Command        site.CommandID `json:"commandId,omitempty"`
	BatteryVoltage float64        `json:"batteryVoltage,omitempty"`
	Detail         string         `json:"detail,omitempty"`
}
