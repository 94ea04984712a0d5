package stationsim

import (
	"encoding/json"
	"fmt"
	"math"
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

func parseCommand(payload []byte) (command, error) {
	var c command
	if err := json.Unmarshal(payload, &c); err != nil {
		return command{}, fmt.Errorf("reading a command: %w", err)
	}
	return c, nil
}

// result is the JSON of stations/<id>/result.
type result struct {
	ID     site.CommandID  `json:"id"`
	Result site.Outcome    `json:"result"` // done, refused or failed
	LockID string          `json:"lockId,omitempty"`
	Status site.LockStatus `json:"status,omitempty"`
}

// report is the JSON of stations/<id>/report.
type report struct {
	Uptime         int64        `json:"uptime"` // in milliseconds
	BatteryVoltage float64      `json:"batteryVoltage"`
	Firmware       string       `json:"firmware"`
	Locks          []reportLock `json:"locks"`
}

// firstReport is what a station reports before it subscribes to its commands, so that
// each of them comes with a deadline in its own clock.
type firstReport struct {
	Uptime int64 `json:"uptime"`
}

type reportLock struct {
	LockID string          `json:"lockId"`
	Status site.LockStatus `json:"status"`
}

// hundredths rounds a voltage as a cheap converter would.
func hundredths(volts float64) float64 { return math.Round(volts*100) / 100 }

// encode returns the JSON of one of our own messages, which always has one.
func encode(message any) []byte {
	data, err := json.Marshal(message)
	if err != nil {
		panic("stationsim: a message without JSON: " + err.Error())
	}
	return data
}
