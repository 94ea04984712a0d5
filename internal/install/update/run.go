package update

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
)

const (
	// turnEvery is how often Run looks at what waits.
	turnEvery = 5 * time.Second
	// latest is how long after its moment a restart still happens. After a longer time
	// without power, or without a clock, it happens at the same hour of another day.
	latest = time.Hour
	// farthest is more than any command takes. What lies farther ahead was reckoned by a
	// clock that was wrong, and happens as what is too late does.
	farthest = 5 * 7 * 24 * time.Hour
)

// Run is the service: it judges a trial, carries out what the gateway asks for, and
// restarts the board at the moment of an update that waits. It returns when there is
// nothing more to do, or with ctx. After an error in a trial the board is to be restarted.
func (u *Updater) Run(ctx context.Context) error {
	for first := true; ctx.Err() == nil; first = false {
		more, err := u.turn(ctx, first)
		if ctx.Err() == nil && (err != nil || !more) {
			return err
		}
		_ = pause(ctx, turnEvery) // its error is that of ctx
	}
	return nil // the service is stopped: nothing was decided
}

// turn does what is to be done now, and reports whether something is left to wait for. The
// first one is not the last where nothing is to be done: a service that ended at once might be
// started too often, and then not at all any more (StartLimitBurst of systemd).
func (u *Updater) turn(ctx context.Context, first bool) (more bool, err error) {
	release, missing, err := u.lock(ctx, true)
	if err != nil {
		if ctx.Err() == nil {
			u.unjudged()
		}
		return false, err
	}
	defer release()
	if first { // a process may have been killed while it changed the boot partition
		if err := u.Board.Protect(); err != nil {
			u.Log.Warn("the boot partition is not protected", "err", err)
		}
	}
	switch {
	case missing && u.standard != u.Board.Running():
		u.unjudged()
		return false, errMissing()
	case u.onTrial():
		if err := u.try(ctx); err != nil || u.state.Trial != nil {
			return false, err
		}
	case u.tried(): // it is the default, which could not be noted
		u.committed()
		u.note()
	case u.state.Trial != nil && first: // another process restarts the board
		return true, nil
	case u.state.Trial != nil && u.restarting(): // it was killed
		return false, fault.New(fault.Unavailable, "The board has not restarted yet to try version "+u.state.Trial.Version)
	case u.state.Trial != nil: // it was killed a moment before, or this start was not judged
		if err := errors.Join(u.fellBack(), u.save()); err != nil {
			return false, err
		}
		u.show(nil)
	}
	if first {
		u.show(nil) // what a killed process has said of its work
	}
	asked, err := u.request(ctx)
	if u.state.Trial != nil { // the board is about to restart, or cannot
		return false, err
	}
	u.takenBack(ctx)
	if w := u.state.Waiting; w != nil && u.due(ctx) {
		err := u.begin(ctx, *w)
		if err == nil || u.state.Waiting != nil { // begun, or nothing was decided: the service is stopped
			return false, nil
		}
		return false, u.failed(w.Version, err)
	}
	return u.state.Waiting != nil || u.state.TakeBack || asked || first, nil
}

// restarting reports whether the board was to restart into a slot: then it does so when the
// service fails (on-trial).
func (u *Updater) restarting() bool {
	s, err := u.Exchange.ReadStatus()
	return err == nil && s.Phase == site.UpdateRestarting
}

// takenBack ends the leave to take back an older database, once the gateway is ready.
func (u *Updater) takenBack(ctx context.Context) {
	if !u.state.TakeBack {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if s, err := u.Gateway.Status(ctx); err != nil || !s.Ready {
		return
	}
	u.state.TakeBack = false
	u.note()
}

// due reports whether the moment of what waits has come. It comes by a clock that is
// trusted only. What was to be tried at once, when the power failed, needs no clock.
func (u *Updater) due(ctx context.Context) bool {
	if u.state.Waiting.At.IsZero() {
		return true
	}
	now, trusted, zone := u.clock(ctx)
	if !trusted {
		u.show(func(s *site.UpdateStatus) { s.WaitingFor = "a trusted clock (see \"gatehouse clock\")" })
		return false
	}
	w := u.state.Waiting
	if late := now.Sub(w.At.Time); late > latest || late < -farthest {
		at := w.At.In(zone)
		at = time.Date(now.In(zone).Year(), now.In(zone).Month(), now.In(zone).Day(), at.Hour(), at.Minute(), at.Second(), 0, zone)
		if at.Before(now) {
			at = at.AddDate(0, 0, 1)
		}
		w.At = site.At(at)
		if err := u.save(); err != nil {
			u.Log.Warn("the state of updates was not written", "err", err)
		}
	}
	u.show(nil)
	return !now.Before(w.At.Time)
}

// clock returns the time, whether it is to be trusted, and the zone of the site: as the
// gateway has them, else as the system does.
func (u *Updater) clock(ctx context.Context) (now time.Time, trusted bool, zone *time.Location) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := u.Gateway.Status(ctx)
	if err != nil {
		return u.Now(), u.Synchronised(), time.Local
	}
	if zone, err = time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "" {
		zone = time.Local
	}
	return s.Clock.Now.Time, s.Clock.Trusted, zone
}

// request carries out what the gateway has asked for. Whatever that is, the state says how
// it ended; an error matters only where the board was to restart. It reports whether there
// was one: another may follow, or it cannot be removed.
func (u *Updater) request(ctx context.Context) (asked bool, err error) {
	r, found, err := u.Exchange.TakeRequest()
	if err != nil {
		u.unreadableRequest(r, err)
		return true, nil
	}
	if !found {
		return false, nil
	}
	u.Log.Info("the gateway asks for an update", "id", r.ID, "action", string(r.Action))
	switch r.Action {
	case slot.Rollback: // data are given up, and keys trusted again, at root's word alone
		before := u.state.Last
		if err = u.trusted(); err == nil {
			_, err = u.goBack(ctx, r.At.Time, false)
		}
		if err != nil && u.state.Last == before {
			u.refuse(err)
		}
		return true, err
	case slot.Withdraw:
		if _, err := u.withdraw(); err != nil {
			u.refuse(err)
		}
		return true, nil
	}
	o := Order{From: Source{URL: r.URL, Upload: r.File}, At: r.At.Time, Until: r.Until.Time}
	if r.SHA256 != "" {
		o.SHA256 = new(updatefile.Sum)
		if err := o.SHA256.UnmarshalText([]byte(r.SHA256)); err != nil {
			u.refuse(fault.Wrap(fault.Invalid, "the request names no SHA-256", err))
			return true, nil
		}
	}
	_, err = u.perform(ctx, o) // an error is recorded
	if r.File {
		u.removeUpload()
	}
	return true, err
}

// trusted refuses a return to an older version that takes updates of a key that the present
// one does not trust: a new image drops a key that was stolen. A newer version was accepted by
// the keys of the present one.
func (u *Updater) trusted() error {
	present, err := u.keys()
	if err != nil {
		return err
	}
	there := u.state.Slots[u.other()]
	if compareVersions(there.Version, u.Board.Version()) > 0 {
		return nil
	}
	for _, key := range there.Keys {
		if !slices.Contains(present, key) {
			return fault.New(fault.Conflict, fmt.Sprintf(
				"Version %s takes updates of a key that version %s does not trust: return to it at a shell of the board, with \"gatehouse update rollback\"",
				there.Version, u.Board.Version()))
		}
	}
	return nil
}

// decline refuses what the gateway has asked for, if it has.
func (u *Updater) decline(why error) {
	switch r, found, err := u.Exchange.TakeRequest(); {
	case err != nil:
		u.unreadableRequest(r, err)
	case found:
		u.refuse(why)
		if r.File {
			u.removeUpload()
		}
	}
}

// unreadableRequest records that a request cannot be taken, once: it may not be possible to remove it.
func (u *Updater) unreadableRequest(r slot.Request, err error) {
	if r.File {
		u.removeUpload()
	}
	if l := u.state.Last; l == nil || l.Outcome != site.UpdateRefused || l.Reason != fault.Text(err) || !u.Exchange.Asked() {
		u.refuse(err)
	}
}

// refuse records that a request was refused.
func (u *Updater) refuse(err error) {
	u.Log.Warn("a request for an update was refused", "err", err)
	u.conclude("", site.UpdateRefused, fault.Text(err))
	u.note()
}
