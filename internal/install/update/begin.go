package update

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// askTimeout bounds a question to the gateway.
const askTimeout = 15 * time.Second

// begin has the next start try a slot once, and restarts the board. After the one shot is
// set, nothing interrupts it.
func (u *Updater) begin(ctx context.Context, w waiting) error {
	online, settled := u.online(ctx)
	if !settled {
		online = append(online, w.Online...)
		slices.Sort(online)
		online = slices.Compact(online)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	u.state.Waiting, u.state.Trial = nil, &trial{attempt: w.attempt, Online: online}
	err := u.save()
	if err == nil {
		u.show(nil) // if this process is killed now, the service fails, and the board restarts (on-trial)
		err = unwritten(u.Board.TryOnce(w.Slot))
	}
	if err != nil {
		u.state.Trial = nil
		return fault.Wrap(fault.KindOf(err), "The next start cannot be made to try version "+w.Version+": "+fault.Text(err), err)
	}
	u.state.Trial.Armed = true
	if err := u.save(); err != nil { // it is tried all the same
		u.Log.Warn("the state of updates was not written", "err", err)
	}
	u.decline(fault.New(fault.Conflict, "The board restarts to try version "+w.Version+": ask again when that has ended")) // else it would be lost
	u.Log.Info("the board restarts to try a version", "version", w.Version, "slot", string(w.Slot), "stations", len(online))
	return fault.Wrap(fault.Unavailable, fmt.Sprintf("Version %s is ready, but the board does not restart by itself: restart it to try the version", w.Version), u.Restart(ctx))
}

// online lists the stations that are connected, which a trial must see again. They are not settled
// soon after a start of the board or of the gateway, as after a power cut: not all are back yet. A
// gateway that does not answer has none.
func (u *Updater) online(ctx context.Context) (ids []site.StationID, settled bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := u.Gateway.Status(ctx)
	var all []adminapi.Station
	if err == nil {
		all, err = u.Gateway.Stations(ctx)
	}
	if err != nil {
		u.Log.Warn("the gateway does not list its stations", "err", err)
	}
	ids = []site.StationID{}
	for _, s := range all {
		if s.Status == site.Online {
			ids = append(ids, s.ID)
		}
	}
	running := min(u.Uptime(), status.Clock.Now.Sub(status.Started.Time)) // the clock may have been set meanwhile
	return ids, err == nil && running >= stationsWithin
}

// Rollback has the next start try the other slot, as an update does, at once or at a
// moment. With oldData the database of before the present version is restored: of what
// happened since, only the journal and revocations are kept. Errors are as those of Update;
// Conflict where the other version cannot read the present database and oldData is false, and
// where one waits for its moment.
func (u *Updater) Rollback(ctx context.Context, at time.Time, oldData bool) (out Outcome, err error) {
	release, _, err := u.lock(ctx, false)
	if err != nil {
		return out, err
	}
	defer release()
	return u.attended(ctx, at, func() (Outcome, error) { return u.goBack(ctx, at, oldData) })
}

// Withdraw calls off the trial of the version that waits for its moment: nothing restarts. The error is
// Conflict where none waits.
func (u *Updater) Withdraw(ctx context.Context) (out Outcome, err error) {
	release, _, err := u.lock(ctx, false)
	if err != nil {
		return out, err
	}
	defer release()
	return u.withdraw()
}

// withdraw is Withdraw under the lock.
func (u *Updater) withdraw() (out Outcome, err error) {
	w := u.state.Waiting
	if w == nil {
		return out, fault.New(fault.Conflict, "No version waits for its moment, so there is none to withdraw")
	}
	u.state.Waiting = nil
	u.conclude(w.Version, site.UpdateRefused, "it was withdrawn before it was tried")
	err = u.save()
	u.show(nil)
	return Outcome{Version: w.Version, Slot: w.Slot, Current: u.Board.Version(), Withdrawn: true}, err
}

// goBack is Rollback under the lock. What waits for its moment waits for Run.
func (u *Updater) goBack(ctx context.Context, at time.Time, oldData bool) (out Outcome, err error) {
	out = Outcome{Slot: u.other(), Current: u.Board.Version(), At: site.At(at)}
	if err := u.free(); err != nil {
		return out, err
	}
	if w := u.state.Waiting; w != nil {
		return out, fault.New(fault.Conflict, fmt.Sprintf("Version %s waits in slot %s for its moment: withdraw it first (\"gatehouse update withdraw\")", w.Version, w.Slot))
	}
	if out.Version, err = u.Board.Installed(u.other()); err != nil {
		return out, unwritten(err)
	}
	if out.Version == "" {
		return out, fault.New(fault.Conflict, fmt.Sprintf("Slot %s is empty: there is no version to return to", u.other()))
	}
	if there := u.state.Slots[u.other()]; !oldData && (there.Version != out.Version || there.Schema < u.Schema) {
		return out, fault.New(fault.Conflict, fmt.Sprintf(
			"Version %s cannot read the database that version %s has changed: with --old-data the one of before is restored, without what was set since then; the journal is kept",
			out.Version, u.Board.Version()))
	}
	u.touched = false
	online, _ := u.online(ctx)
	w := waiting{attempt: attempt{Slot: u.other(), Version: out.Version, OldData: oldData}, At: site.At(at), Online: online}
	if !at.IsZero() {
		u.state.Waiting = &w
		err = u.save()
		u.show(nil)
		return out, err
	}
	if err := u.begin(ctx, w); err != nil {
		return out, u.failed(out.Version, err)
	}
	return out, nil
}
