package update

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
)

// settlePatience is how long Settle waits for the lock: nobody holds it so early.
const settlePatience = 10 * time.Second

// Settle judges a start, before the gateway starts: whether it is a trial, or follows one
// that failed. It publishes the status. To be called once in each start.
func (u *Updater) Settle(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	release, missing, err := u.lock(waiting, true)
	if err != nil {
		u.unreadable(err)
		u.unjudged()
		return err
	}
	defer release()
	running := u.Board.Running()
	if missing && running != u.standard {
		u.unjudged()
		return errMissing()
	}
	keys, unread := u.keys()
	if unread != nil {
		u.Log.Warn("the keys of updates cannot be read", "err", unread)
	}
	u.state.Slots[running] = content{u.Board.Version(), u.Schema, keys}
	switch t := u.state.Trial; {
	case t == nil && u.standard != running:
		u.state.Strayed, u.state.TakeBack = true, false
	case t == nil: // a version that was never the default may have changed the database meanwhile
		u.state.TakeBack, u.state.Strayed = u.state.TakeBack || u.state.Strayed || missing, false
	case t.Slot == running && u.standard == running: // the power failed within the commit
		u.committed()
	case t.Slot == running:
		t.Started, u.state.TakeBack = true, t.OldData && u.state.Slots[u.other()].Schema > u.Schema
		err = u.Board.DropOneShot() // the boot loader may not have been able to: it would be tried for ever
	default:
		err = u.fellBack()
	}
	err = errors.Join(err, u.save())
	u.show(nil)
	return err
}

// keys returns the keys that the version which runs takes updates of, as its image lists them.
func (u *Updater) keys() (lines []string, err error) {
	ring, err := updatefile.ReadKeys(u.Keys)
	for _, id := range ring.IDs() {
		key, _ := ring.Key(id)
		lines = append(lines, key.String())
	}
	return lines, err
}

// unreadable notes that the version on trial cannot read the boot partition. If it has noted
// that at the start before, then restarts do not lead back, and the trial ends here.
func (u *Updater) unreadable(err error) {
	t := u.state.Trial
	switch {
	case !u.tried():
	case t.Reason == "":
		u.blame("it cannot read the boot partition: " + fault.Text(err))
	default:
		u.conclude(t.Version, site.UpdateFailed, t.Reason+", and a restart does not return to the old version")
		u.state.Trial = nil
		if err := u.save(); err != nil {
			u.Log.Warn("the state of updates was not written", "err", err)
		}
	}
}

// unjudged publishes the status of a board whose state or default cannot be read. One that
// does not run its default is on trial for all that is known: gatehouse-fallback.service
// ends that when the service fails for the same reason. A trial of the other slot is over.
func (u *Updater) unjudged() {
	u.show(func(s *site.UpdateStatus) {
		switch {
		case u.tried(), u.state.Trial == nil && s.Default != "" && s.Default != s.Running.Slot:
			s.Phase, s.Target = site.UpdateTrial, s.Running.Version
		case u.state.Trial != nil:
			s.Phase, s.Target, s.TakeBack = site.UpdateIdle, "", true
		}
	})
}

// errMissing is the error of a board that runs what is not its default without knowing why.
// In a trial it is the new version that cannot read the disk of the data.
func errMissing() error {
	return fault.New(fault.Unavailable, "The state of updates is missing, so the version that runs is not judged: restart the board to return to the default")
}

// committed notes that the version on trial is the default.
func (u *Updater) committed() {
	u.conclude(u.state.Trial.Version, site.UpdateCommitted, "")
	u.state.Trial, u.state.TakeBack = nil, false
}

// fellBack notes that a trial has failed: the old version runs again.
func (u *Updater) fellBack() error {
	t := u.state.Trial
	outcome, reason := site.UpdateFellBack, t.Reason
	switch {
	case reason != "":
	case t.Started:
		reason = fmt.Sprintf("version %s stopped before it was found to be well: the power failed, or it hung", t.Version)
	case t.Armed:
		reason = fmt.Sprintf("version %s did not start", t.Version)
	default:
		outcome, reason = site.UpdateFailed, fmt.Sprintf("version %s was not tried, because the power failed or a process was killed; update again", t.Version)
	}
	u.conclude(t.Version, outcome, reason)
	u.state.Trial, u.state.TakeBack = nil, true
	u.Log.Warn("an update was undone", "version", t.Version, "reason", reason)
	return u.Board.DropOneShot()
}
