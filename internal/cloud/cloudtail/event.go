package cloudtail

import (
	"encoding/json"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

// Kind says what an event is.
type Kind string

// The kinds of events.
const (
	Connected    Kind = "connected"    // to the broker, and subscribed
	Disconnected Kind = "disconnected" // Detail says why, and when the next attempt is made
	Status       Kind = "status"       // of a gateway's link
	State        Kind = "state"        // of a station
	Removed      Kind = "removed"      // a station is no longer there
	Record       Kind = "record"       // the next one of the journal
	Live         Kind = "live"         // a record before its turn: it comes again as Record
	Result       Kind = "result"       // how a command ended
	Gap          Kind = "gap"          // the gateway no longer has the records From to To
	Waiting      Kind = "waiting"      // the records From to To did not come: they are asked for, and nothing after them is acknowledged
	Missing      Kind = "missing"      // they do not come: the gateway counts them as delivered
	Restored     Kind = "restored"     // the gateway was restored from a backup: its records from From on are others than before, or than a gap said
	Malformed    Kind = "malformed"    // a message that is not of the contract; Detail says why
)

// Event is one thing that happened. As JSON it is one flat object.
type Event struct {
	Time     site.Timestamp  `json:"time"` // when it came here
	Kind     Kind            `json:"event"`
	Gateway  site.GatewayID  `json:"gateway,omitempty"`
	Station  site.StationID  `json:"stationId,omitempty"`
	Retained bool            `json:"retained,omitempty"` // of Status and State: it stood there already
	From     uint64          `json:"from,omitempty"`
	To       uint64          `json:"to,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"` // as it came

	// The payload as it was read; each of one kind alone.
	Record *site.Record       `json:"-"` // of Record and Live
	State  *site.StationState `json:"-"`
	Status *api.Status        `json:"-"`
	Result *api.Result        `json:"-"`
}
