package update

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// Gateway is the gateway that runs on this board; package adminapi/client satisfies it.
type Gateway interface {
	Status(ctx context.Context) (adminapi.Status, error)
	Stations(ctx context.Context) ([]adminapi.Station, error)
}

// Config is the board and what surrounds it. All but HTTP is required.
type Config struct {
	Board    *slot.Board
	Exchange slot.Exchange
	Folder   string // of root alone, on a disk that lasts
	Keys     string // the file of the keys that are trusted
	Schema   int    // of the database that this program writes
	Gateway  Gateway
	Log      *slog.Logger

	Restart      func(context.Context) error // restarts the board
	Wake         func(context.Context) error // has the service look at the state, if it does not run
	Serves       func(context.Context, adminapi.Status) error
	Now          func() time.Time
	Uptime       func() time.Duration // of the board
	Synchronised func() bool          // whether the system's clock is right
	Progress     func(site.UpdateStatus)
	HTTP         http.RoundTripper // nil is the network
}

// Updater updates one board. Its methods are not to be called concurrently; processes
// exclude each other by a lock.
type Updater struct {
	Config
	state    state
	saved    []byte // the state as it is on the disk
	standard slot.Name
	shown    []byte // the status that was published last
	touched  bool   // the other slot was written to
	checking bool   // the order only checks: its status goes to Progress alone
}

// New returns an updater of a board. It does nothing yet.
func New(cfg Config) *Updater { return &Updater{Config: cfg} }

// Order is an update that is asked for.
type Order struct {
	From   Source
	SHA256 *updatefile.Sum // that its file must have; nil where none was stated
	At     time.Time       // when the board restarts; zero is at once
	Until  time.Time       // the end of a window, in which an update that is written after At has another moment; zero: none
	Check  bool            // refuse what can be refused, and write to no slot
}

// Outcome is what an order came to.
type Outcome struct {
	Version string         `json:"version"`
	Slot    slot.Name      `json:"slot"`
	Checked bool           `json:"checked"`      // and nothing else
	At      site.Timestamp `json:"at,omitzero"`  // when the board restarts; absent: now
	Current string         `json:"current"`      // the version that runs
	Written int64          `json:"writtenBytes"` // of the root file system; blocks that were there already are not counted
	// Withdrawn means that the version waited for its moment and is not to be tried any more.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Update carries out an order: it returns when all is written and the board is about to
// restart, or will at the time of the order. Errors are Invalid for an update that is
// refused, Conflict for a board that takes none now, and Unavailable for what may succeed
// later.
func (u *Updater) Update(ctx context.Context, o Order) (out Outcome, err error) {
	release, _, err := u.lock(ctx, false)
	if err != nil {
		return out, err
	}
	defer release()
	if o.Check {
		return u.perform(ctx, o)
	}
	return u.attended(ctx, o.At, func() (Outcome, error) { return u.perform(ctx, o) })
}

// attended carries out an order while the service waits for the lock: it says how the order
// ended if this process is killed, and restarts the board at the moment.
func (u *Updater) attended(ctx context.Context, at time.Time, order func() (Outcome, error)) (out Outcome, err error) {
	if err := u.Wake(ctx); err != nil {
		return out, fault.Wrap(fault.Unavailable, "The service gatehouse-update does not start, so nothing was changed: \"systemctl status gatehouse-update\" says why", err)
	}
	out, err = order()
	if err == nil && !at.IsZero() { // again: it may just have ended when the order began
		err = fault.Wrap(fault.Unavailable, "The update is written, but the service gatehouse-update does not start: restart the board yourself to try it", u.Wake(ctx))
	}
	return out, err
}

// perform carries out an order and records how it failed. The lock is held.
func (u *Updater) perform(ctx context.Context, o Order) (out Outcome, err error) {
	u.touched, u.checking = false, o.Check
	defer func() { u.checking = false }()
	out = Outcome{Slot: u.other(), Current: u.Board.Version(), Checked: o.Check, At: site.At(o.At)}
	out.Version, out.Written, err = u.install(ctx, o)
	if err == nil && !o.Check && o.At.IsZero() {
		err = u.begin(ctx, *u.state.Waiting)
	}
	if err != nil && !o.Check {
		err = u.failed(out.Version, err)
	}
	u.show(nil)
	return out, err
}

// failed records an error, and makes sure that a slot that is not whole cannot start.
func (u *Updater) failed(version string, err error) error {
	outcome, reason := site.UpdateRefused, fault.Text(err)
	u.state.Work = nil
	if u.touched {
		outcome = site.UpdateFailed
		u.state.Waiting = nil
		if u.state.Trial == nil {
			err = errors.Join(err, u.Board.Change(func() error { return u.Board.Clear(u.other()) }))
		}
	}
	if errors.Is(err, context.Canceled) {
		outcome, reason = site.UpdateFailed, "it was interrupted; the same command continues it"
	}
	u.conclude(version, outcome, reason)
	u.Log.Warn("an update was not installed", "version", version, "outcome", string(outcome), "reason", reason)
	u.note()
	return err
}

// install fetches, checks and writes an update, and notes that it waits to be tried.
func (u *Updater) install(ctx context.Context, o Order) (version string, written int64, err error) {
	if err := u.free(); err != nil {
		return "", 0, err
	}
	if !o.Check {
		u.state.Work = &work{}
		if err := u.save(); err != nil {
			return "", 0, err
		}
	}
	keys, err := updatefile.ReadKeys(u.Keys)
	if err != nil {
		return "", 0, err
	}
	medium, err := u.obtain(ctx, o, keys)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = medium.Close() }()
	f, err := updatefile.Open(medium, medium.size, keys)
	if err == nil {
		version, err = f.Manifest.Version, u.judge(f.Manifest)
	}
	if err == nil {
		err = u.judgeEntries(f)
	}
	if err == nil {
		err = u.check(ctx, f, o, medium)
	}
	if err != nil || o.Check {
		return version, 0, errors.Join(err, medium.spoilt(err))
	}
	u.Log.Info("an update is being written", "version", version, "slot", string(u.other()))
	if written, err = u.write(ctx, f); err != nil {
		return version, written, err
	}
	u.state.Slots[u.other()] = content{Version: version, Schema: f.Manifest.Schema}
	online, _ := u.online(ctx)
	u.state.Waiting, u.state.Work = &waiting{attempt: attempt{Slot: u.other(), Version: version}, At: site.At(u.moment(ctx, o)), Online: online}, nil
	return version, written, errors.Join(u.save(), u.dropDownload()) // also one that was given up for this file
}

// moment returns when the board restarts into what has just been written. One that has passed
// meanwhile is drawn anew from what is left of the window: restarts at the end of long
// downloads would not be spread.
func (u *Updater) moment(ctx context.Context, o Order) time.Time {
	if o.Until.IsZero() {
		return o.At
	}
	now, trusted, _ := u.clock(ctx)
	if left := o.Until.Sub(now); trusted && o.At.Before(now) && left > 0 {
		return now.Add(rand.N(left)) //nolint:gosec // no secret
	}
	return o.At
}

// free refuses an update on a board that takes none now.
func (u *Updater) free() error {
	running := u.Board.Running()
	switch t := u.state.Trial; {
	case u.onTrial():
		return fault.New(fault.Conflict, fmt.Sprintf("Version %s is on trial: wait until the trial has ended, twelve minutes after the start at most", t.Version))
	case t != nil:
		return fault.New(fault.Conflict, fmt.Sprintf("The board is about to restart into version %s: wait, or restart it yourself", t.Version))
	case u.standard != running:
		return fault.New(fault.Conflict, fmt.Sprintf(
			"Slot %s was chosen by hand and slot %s is the default, which an update would overwrite: restart the board without choosing, then update", running, u.standard))
	}
	return nil
}

// check compares the whole file with its manifest, and with the SHA-256 of the order.
func (u *Updater) check(ctx context.Context, f *updatefile.File, o Order, medium *medium) error {
	whole := medium.size
	if o.SHA256 != nil {
		whole *= 2
	}
	if o.Check {
		whole += f.Manifest.Unpacked().Size
	}
	p, done := u.phase(site.UpdateChecking, f.Manifest.Version), int64(0)
	count := func(n int64) {
		done += n
		p.at(done, whole)
	}
	if o.SHA256 != nil {
		if err := medium.compare(ctx, *o.SHA256, count); err != nil {
			return err
		}
	}
	err := f.Verify(ctx, count)
	if err == nil && o.Check {
		err = f.VerifyRoot(ctx, count)
	}
	return err
}
