package stationsim

import (
	"time"

	"gatehouse/internal/site"
)

// The topics of a station (contract, section 2).
func reportTopic(id site.StationID) string  { return "stations/" + id.String() + "/report" }
func resultTopic(id site.StationID) string  { return "stations/" + id.String() + "/result" }
func commandTopic(id site.StationID) string { return "stations/" + id.String() + "/command" }

// command is the JSON of stations/<id>/command.
type command struct {
	ID      site.CommandID `json:"id"`
	Command string         `json:"command"`
	LockID  string         `json:"lockId"`
	TTL     *float64       `json:"ttl"` // seconds

	// NotAfter is the deadline in the station's own uptime, in milliseconds; it decides
	// where both are present.
	NotAfter *float64 `json:"notAfter"`
}

// maxTTL bounds what a station believes of a ttl; a door need not open an hour late.
const maxTTL = time.Hour

// ttl returns the command's time to live; without one, the contract's default.
func (c command) ttl() time.Duration {
	if c.TTL == nil {
		return site.DefaultTTL
	}
	return time.Duration(min(max(*c.TTL, 0), maxTTL.Seconds()) * float64(time.Second))
}

// event returns an event about the command.
func (c command) event(kind Kind, detail string) Event {
	return Event{Kind: kind, Lock: c.LockID, Command: c.ID, Detail: detail}
}

// result is the JSON of stations/<id>/result.
type result struct {
	ID     site.CommandID  `json:"id"`
	Result site.Outcome    `json:"result"` // done, refused or failed
	LockID string          `json:"lockId,omitempty"`
	Status site.LockStatus `json:"status,omitempty"`
}

// report is the JSON of stations/<id>/report. What a station reports before it subscribes
// to its commands has its uptime only, so that each of them comes with a deadline in its
// own clock.
type report struct {
	Uptime         int64        `json:"uptime"` // in milliseconds
	BatteryVoltage float64      `json:"batteryVoltage,omitempty"`
	Firmware       string       `json:"firmware,omitempty"`
	Locks          []reportLock `json:"locks,omitempty"`
}

type reportLock struct {
	LockID string          `json:"lockId"`
	Status site.LockStatus `json:"status"`
	Door   site.DoorStatus `json:"door,omitempty"`
}
