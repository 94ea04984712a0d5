package site

import (
	"fmt"
	"time"
)

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
	UpdateRestarting UpdatePhase = "restarting" // into the new version, or back after its trial
	UpdateTrial      UpdatePhase = "trial"      // the new version runs and is not the default yet
)

// UpdateOutcome is how an update ended.
type UpdateOutcome string

// The outcomes.
const (
	UpdateCommitted UpdateOutcome = "committed" // the new version is the default
	UpdateFellBack  UpdateOutcome = "fell-back" // it was tried, and the old version runs again
	UpdateRefused   UpdateOutcome = "refused"   // nothing was written, or it was withdrawn
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
	Default    string      `json:"default,omitempty"` // the slot that the next start takes; "" where that cannot be read
	Trouble    string      `json:"trouble,omitempty"` // why it cannot, and with it why no update is possible: one sentence, without a full stop
	Other      SlotStatus  `json:"other,omitzero"`
	Phase      UpdatePhase `json:"phase,omitempty"`
	Percent    int         `json:"percent,omitempty"` // of the phase, 0 to 100
	Target     string      `json:"target,omitempty"`  // the version of the update in progress
	At         Timestamp   `json:"at,omitzero"`       // when it restarts, in the phase UpdateWaiting
	WaitingFor string      `json:"waitingFor,omitempty"`
	Last       *LastUpdate `json:"last,omitempty"`
	Before     *LastUpdate `json:"before,omitempty"` // the last one that was not refused, where Last was
	// TakeBack means that this start may take back the database of before another version: it
	// follows a trial that failed, a rollback to the old data, or a version that is not the
	// default, or the state of updates was lost.
	TakeBack bool `json:"takeBack,omitempty"`
}

// Sentences returns the status as plain sentences, each complete: which version runs in
// which slot, which one waits, what goes on, and how the last update ended. Times are of
// that zone.
func (s UpdateStatus) Sentences(zone *time.Location) []string {
	if !s.Image {
		return []string{s.Advice}
	}
	all := []string{
		fmt.Sprintf("Version %s runs, from slot %s.", s.Running.Version, s.Running.Slot),
		fmt.Sprintf("Slot %s has version %s.", s.Other.Slot, s.Other.Version),
	}
	if s.Other.Version == "" {
		all[1] = fmt.Sprintf("Slot %s is empty.", s.Other.Slot)
	}
	switch {
	case s.Phase == UpdateTrial:
	case s.Default == "":
		all = append(all, fmt.Sprintf("No update is possible: %s.", s.Trouble))
	case s.Default != s.Running.Slot:
		all = append(all, fmt.Sprintf("Slot %s is the default: the next start takes it.", s.Default))
	}
	if now := s.Progress(zone); now != "" {
		all = append(all, now)
	}
	if s.Last != nil {
		all = append(all, s.Last.Sentence(zone))
	}
	if s.Before != nil {
		all = append(all, s.Before.sentence("Before that, an update"+s.Before.to(), zone))
	}
	return all
}

// Progress returns the sentence about what an update does at the moment, "" where there is
// none.
func (s UpdateStatus) Progress(zone *time.Location) string {
	target := "An update"
	if s.Target != "" {
		target = "Version " + s.Target
	}
	share := ""
	if s.Percent > 0 {
		share = fmt.Sprintf(": %d %%", s.Percent)
	}
	switch s.Phase {
	case UpdateFetching:
		return target + " is being fetched" + share + "."
	case UpdateChecking:
		return target + " is being checked" + share + "."
	case UpdateWriting:
		return fmt.Sprintf("%s is being written to slot %s%s.", target, s.Other.Slot, share)
	case UpdateVerifying:
		return fmt.Sprintf("%s is being read back from slot %s%s.", target, s.Other.Slot, share)
	case UpdateWaiting:
		if s.WaitingFor != "" {
			return fmt.Sprintf("%s is in slot %s, to be tried at %s: the board waits for %s.", target, s.Other.Slot, moment(s.At, zone), s.WaitingFor)
		}
		if s.At.IsZero() {
			return fmt.Sprintf("%s waits in slot %s: the board restarts into it at once.", target, s.Other.Slot)
		}
		return fmt.Sprintf("%s waits in slot %s: the board restarts into it at %s.", target, s.Other.Slot, moment(s.At, zone))
	case UpdateRestarting:
		if s.Default == s.Other.Slot {
			return fmt.Sprintf("Version %s did not pass its trial: the board goes back to slot %s.", s.Running.Version, s.Other.Slot)
		}
		return fmt.Sprintf("The board restarts to try slot %s.", s.Other.Slot)
	case UpdateTrial:
		missing := ""
		if s.WaitingFor != "" {
			missing = ", and waits for " + s.WaitingFor
		}
		return fmt.Sprintf("Version %s is on trial%s: unless all is well in time, the board goes back to slot %s.", s.Running.Version, missing, s.Other.Slot)
	}
	return ""
}

// Sentence returns the sentence about how an update ended.
func (l LastUpdate) Sentence(zone *time.Location) string {
	return l.sentence("The last update"+l.to(), zone)
}

func (l LastUpdate) to() string {
	if l.Version == "" {
		return ""
	}
	return " to version " + l.Version
}

func (l LastUpdate) sentence(update string, zone *time.Location) string {
	at := moment(l.Time, zone)
	switch l.Outcome {
	case UpdateCommitted:
		return fmt.Sprintf("%s was completed at %s.", update, at)
	case UpdateFellBack:
		return fmt.Sprintf("%s was undone at %s: %s.", update, at, l.Reason)
	case UpdateRefused:
		return fmt.Sprintf("%s was refused at %s: %s.", update, at, l.Reason)
	default:
		return fmt.Sprintf("%s failed at %s: %s.", update, at, l.Reason)
	}
}

// moment returns a time for people.
func moment(t Timestamp, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04 MST")
}
