package update

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	stateName = "state.json"
	lockName  = "lock"
)

// state is what must survive a restart. It is in a folder of root's alone. Fields that
// another version adds are ignored.
type state struct {
	Slots    map[slot.Name]content `json:"slots"`
	Waiting  *waiting              `json:"waiting,omitempty"`
	Trial    *trial                `json:"trial,omitempty"`
	Work     *work                 `json:"work,omitempty"`
	Last     *site.LastUpdate      `json:"last,omitempty"`
	Before   *site.LastUpdate      `json:"before,omitempty"`   // as in site.UpdateStatus
	TakeBack bool                  `json:"takeBack,omitempty"` // until the gateway has been ready
	Strayed  bool                  `json:"strayed,omitempty"`  // what is not the default has run without a trial
}

// content is what is in a slot.
type content struct {
	Version string   `json:"version"`
	Schema  int      `json:"schema"`         // of the database that it writes
	Keys    []string `json:"keys,omitempty"` // that it takes updates of; none before it has started
}

// work is an update that a process carries out. It holds the lock meanwhile: who finds the
// work when it has the lock knows that the process was killed, or that the power failed.
type work struct {
	Version string `json:"version"` // "" before it is known
}

// waiting is a version that was written and is to be tried at a moment.
type waiting struct {
	attempt
	At     site.Timestamp   `json:"at"`     // zero is at once
	Online []site.StationID `json:"online"` // stations that were, when it was written
}

// attempt is what is to be tried.
type attempt struct {
	Slot    slot.Name `json:"slot"`
	Version string    `json:"version"`
	OldData bool      `json:"oldData,omitempty"` // with the database of before the present version
}

// trial is a version that is being tried. packaging/image/root/usr/lib/gatehouse-image/on-trial
// reads its slot.
type trial struct {
	attempt
	Online  []site.StationID `json:"online"`            // stations that were, before
	Armed   bool             `json:"armed,omitempty"`   // the one shot was set
	Started bool             `json:"started,omitempty"` // the slot has started
	Reason  string           `json:"reason,omitempty"`  // it fails
}

// load reads the state; missing is true where there is none yet, or none any more.
func (u *Updater) load() (missing bool, err error) {
	u.state, u.saved = state{Slots: map[slot.Name]content{}}, nil
	text, err := os.ReadFile(u.path(stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the state of updates: %w", err)
	}
	u.saved = text
	if err := json.Unmarshal(text, &u.state); err != nil { // it is replaced atomically, so the card is failing
		u.state, u.saved = state{}, nil
		u.conclude("", site.UpdateFailed, "the card has damaged what was known of updates, and whether one was in progress")
	}
	if u.state.Slots == nil {
		u.state.Slots = map[slot.Name]content{}
	}
	if w := u.state.Work; w != nil {
		u.conclude(w.Version, site.UpdateFailed, "it was interrupted: try again")
		u.state.Work = nil
		u.note()
	}
	return u.saved == nil, nil
}

// save makes the state durable.
func (u *Updater) save() error {
	text, err := json.Marshal(u.state)
	if err == nil && !bytes.Equal(text, u.saved) {
		err = durable.Write(u.path(stateName), text, 0o600)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The state of updates cannot be written to "+u.path(stateName)+": make room there and try again", err)
	}
	u.saved = text
	return nil
}

// note is save where nothing depends on it, and publishes the status.
func (u *Updater) note() {
	if err := u.save(); err != nil {
		u.Log.Warn("the state of updates was not written", "err", err)
	}
	u.show(nil)
}

func (u *Updater) path(name string) string { return filepath.Join(u.Folder, name) }

// conclude records how an update ended. What was refused does not hide how the one before ended.
func (u *Updater) conclude(version string, outcome site.UpdateOutcome, reason string) {
	switch last := u.state.Last; {
	case outcome != site.UpdateRefused:
		u.state.Before = nil
	case last != nil && last.Outcome != site.UpdateRefused:
		u.state.Before = last
	}
	u.state.Last = &site.LastUpdate{Version: version, Outcome: outcome, Time: site.At(u.Now()), Reason: bounded(reason, maxReason)}
}

// maxReason is how much of a reason is kept, in bytes: a server or the gateway may have
// worded it, and what reads the status takes a small file.
const maxReason = 600

// bounded returns a text, or what it begins with.
func bounded(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// onTrial reports whether the slot that runs is being tried.
func (u *Updater) onTrial() bool { return u.tried() && u.standard != u.Board.Running() }

// tried is onTrial for a board whose default may not be known.
func (u *Updater) tried() bool {
	return u.state.Trial != nil && u.state.Trial.Slot == u.Board.Running()
}

// Status returns the status as the board and the state have it.
func (u *Updater) Status() (site.UpdateStatus, error) {
	s := site.UpdateStatus{
		Image: true, Family: u.Board.Family(), Phase: site.UpdateIdle, Last: u.state.Last, Before: u.state.Before, TakeBack: u.state.TakeBack,
		Running: site.SlotStatus{Slot: string(u.Board.Running()), Version: u.Board.Version()},
		Other:   site.SlotStatus{Slot: string(u.other())},
	}
	var err, failed error
	if u.standard, err = u.Board.Default(); err != nil {
		s.Trouble = bounded(fault.Text(err), maxReason)
	}
	s.Default = string(u.standard)
	s.Other.Version, failed = u.Board.Installed(u.other())
	switch {
	case u.onTrial():
		s.Phase, s.Target = site.UpdateTrial, u.state.Trial.Version
	case u.state.Trial != nil:
		s.Phase, s.Target = site.UpdateRestarting, u.state.Trial.Version
	case u.state.Waiting != nil:
		s.Phase, s.Target, s.At = site.UpdateWaiting, u.state.Waiting.Version, u.state.Waiting.At
	}
	return s, errors.Join(err, failed)
}

// other returns the slot that does not run.
func (u *Updater) other() slot.Name { return u.Board.Running().Other() }

// show publishes the status of now, as far as it can be read, as change alters it. While it only
// checks, it calls Progress alone: a killed check must not be taken for an interrupted update.
func (u *Updater) show(change func(*site.UpdateStatus)) {
	s, err := u.Status()
	if change != nil {
		change(&s)
	}
	if !u.checking && !slices.Equal(u.shown, fingerprint(s)) {
		err = errors.Join(err, u.Exchange.WriteStatus(s))
		u.shown = fingerprint(s)
	}
	if err != nil {
		u.Log.Warn("the status of updates was not written", "err", err)
	}
	u.Progress(s)
}

// fingerprint tells two statuses apart.
func fingerprint(s site.UpdateStatus) []byte {
	text, _ := json.Marshal(s) // of strings and numbers
	return text
}

// progress is how far a phase of an update is.
type progress struct {
	u       *Updater
	phase   site.UpdatePhase
	version string
	shown   int
}

// phase begins a phase.
func (u *Updater) phase(p site.UpdatePhase, version string) *progress {
	return &progress{u: u, phase: p, version: version, shown: -1}
}

// at publishes how many bytes of the whole are done; a whole of 0 or less is unknown.
func (p *progress) at(done, whole int64) {
	percent := 0
	if whole > 0 {
		percent = int(min(done*100/whole, 100))
	}
	if percent != p.shown {
		p.shown = percent
		p.u.show(func(s *site.UpdateStatus) { s.Phase, s.Percent, s.Target = p.phase, percent, p.version })
	}
}
