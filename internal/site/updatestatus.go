package site

import "time"

// UpdatePhase is what an update of the system does at the moment.
type UpdatePhase string

// The phases, in their order.
const (
	UpdateIdle       UpdatePhase = "idle"
	UpdateFetching   UpdatePhase = "fetching"
	UpdateChecking   UpdatePhase = "checking"
	UpdateWriting    UpdatePhase = "writing"
	UpdateVerifying  UpdatePhase = "verifying"
	UpdateWaiting    UpdatePhase = "waiting"    // all is written; it restarts at UpdateStatus.At
	UpdateRestarting UpdatePhase = "restarting" // into the new version
	UpdateTrial      UpdatePhase = "trial"      // the new version runs and is not the default yet
)

// UpdateOutcome is how an update ended.
type UpdateOutcome string

// The outcomes.
const (
	UpdateCommitted UpdateOutcome = "committed" // the new version is the default
	UpdateFellBack  UpdateOutcome = "fell-back" // it was tried, and the old version runs again
	UpdateRefused   UpdateOutcome = "refused"   // nothing was written
	UpdateFailed    UpdateOutcome = "failed"    // before it was tried
)

// SlotStatus is one of the two slots of a board, "a" or "b".
type SlotStatus struct {
	Slot    string `json:"slot"`
	Version string `json:"version"` // "" when the slot is empty
}

// LastUpdate is how the last update ended.
type LastUpdate struct {
	Version string        `json:"version"` // "" where it was not known
	Outcome UpdateOutcome `json:"outcome"`
	Time    Timestamp     `json:"time"`
	Reason  string        `json:"reason,omitempty"` // one sentence, without a full stop at its end; "" when committed
}

// UpdateStatus is which versions a board has and what an update of it does. On a system
// that was not started from an image of ours, only Image and Advice are set.
type UpdateStatus struct {
	Image      bool        `json:"image"`
	Advice     string      `json:"advice,omitempty"` // how this system is updated, where Image is false
	Family     string      `json:"family,omitempty"` // of boards: "gatehouse-arm64"
	Running    SlotStatus  `json:"running,omitzero"`
	Default    string      `json:"default,omitempty"` // the slot that the next start takes
	Other      SlotStatus  `json:"other,omitzero"`
	Phase      UpdatePhase `json:"phase,omitempty"`
	Percent    int         `json:"percent,omitempty"` // of the phase, 0 to 100
	Target     string      `json:"target,omitempty"`  // the version of the update in progress
	At         Timestamp   `json:"at,omitzero"`       // when it restarts, in the phase UpdateWaiting
	WaitingFor string      `json:"waitingFor,omitempty"`
	Last       *LastUpdate `json:"last,omitempty"`
}

// Sentences returns the status as plain sentences, each complete: which version runs in
// which slot, which one waits, what goes on, and how the last update ended.
func (s UpdateStatus) Sentences(zone *time.Location) []string { return nil }
