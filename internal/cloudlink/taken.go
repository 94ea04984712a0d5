package cloudlink

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/cloudcommand"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// takePatience is how long a command waits for a slow disk before it goes on without
	// it, as every unlock does for its record.
	takePatience = 2 * time.Second
	// forgetEvery is how often old ids are looked for.
	forgetEvery = time.Minute
	// forgetMargin is how far the time must be past a command's end before its id is
	// forgotten.
	forgetMargin = 5 * time.Second
	// maxTaken bounds the ids that are remembered: what trusted signers can send in a
	// quarter of an hour, one a second to each of 50 doors.
	maxTaken = 50_000
)

// CommandStore keeps which commands of the cloud were taken; package sqlite satisfies
// it. Safe for concurrent use. Errors are fault.Unavailable when the disk fails, and
// fault.Timeout when ctx ends first; what was to be written may then still be.
type CommandStore interface {
	// TakeCommand makes the id durable before it returns; fault.Conflict when it is there
	// already, whatever stands beside it.
	TakeCommand(ctx context.Context, cmd site.TakenCommand) error
	// EndCommand keeps how the command of that id ended; fault.NotFound when it is not
	// there.
	EndCommand(ctx context.Context, id string, outcome site.Outcome, at time.Time) error
	// TakenCommands gives all that are kept.
	TakenCommands(ctx context.Context) ([]site.TakenCommand, error)
	// ForgetCommands removes those whose Until is before that time, and says how many.
	ForgetCommands(ctx context.Context, before time.Time) (int, error)
	// CommandsFrom says, on a gateway that was restored from a backup, since when commands
	// are taken again; waiting: since no moment yet. The zero time on any other.
	CommandsFrom(ctx context.Context) (from time.Time, waiting bool, err error)
	// SaveCommandsFrom keeps that moment.
	SaveCommandsFrom(ctx context.Context, from time.Time) error
	// Floor is the time below which no clock of this gateway will read, also after a
	// restart.
	Floor(ctx context.Context) (time.Time, error)
}

// taken is the memory of the commands that were taken, in the process and on disk. The
// one in the process decides; the other makes it last over a restart.
type taken struct {
	store   CommandStore
	clock   site.Clock
	log     *slog.Logger
	stalled atomic.Bool // the disk failed at the last try: nobody waits for it
	looked  time.Time   // when old ids were last looked for; only tidy touches it

	mu   sync.Mutex // mu guards byID
	byID map[string]*takenCommand
}

// takenCommand is a command that was taken, and what of it is on disk.
type takenCommand struct {
	site.TakenCommand
	kept  bool // the id
	whole bool // all of it
}

func newTaken(store CommandStore, clock site.Clock, log *slog.Logger) *taken {
	return &taken{store: store, clock: clock, log: log, looked: time.Now(), byID: make(map[string]*takenCommand)}
}

// load reads what an earlier run has kept, and gives the ids of those that it did not
// see ended.
func (t *taken) load(ctx context.Context) (interrupted []string, err error) {
	all, err := t.store.TakenCommands(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cmd := range all {
		t.byID[cmd.ID] = &takenCommand{TakenCommand: cmd, kept: true, whole: true}
		if cmd.Outcome == site.Requested {
			interrupted = append(interrupted, cmd.ID)
		}
	}
	return interrupted, nil
}

// take takes an id that was never taken before: then reason is "", and the id is
// durable, or kept in memory while the storage fails. Of a repeated one it gives how it
// stands.
func (t *taken) take(ctx context.Context, id string, until time.Time) (first site.TakenCommand, reason cloudcommand.Reason) {
	cmd := site.TakenCommand{ID: id, Until: until, Outcome: site.Requested}
	if first, reason = t.claim(cmd); reason != "" {
		return first, reason
	}
	if t.stalled.Load() {
		return cmd, ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takePatience)
	defer cancel()
	err := t.store.TakeCommand(ctx, cmd)
	if fault.Is(err, fault.Conflict) { // it is on disk, and load has not seen it
		cmd.Outcome = site.Unresolved
		t.mark(cmd, true, true)
		return cmd, cloudcommand.Repeated
	}
	if t.heard(err) {
		t.mark(cmd, true, false)
	}
	return cmd, ""
}

// claim takes an id in memory. Of many at once it lets one pass.
func (t *taken) claim(cmd site.TakenCommand) (first site.TakenCommand, reason cloudcommand.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byID[cmd.ID]; ok {
		return known.TakenCommand, cloudcommand.Repeated
	}
	if len(t.byID) >= maxTaken {
		return first, cloudcommand.Busy
	}
	t.byID[cmd.ID] = &takenCommand{TakenCommand: cmd}
	return first, ""
}

// mark says how a command stands in memory and on disk.
func (t *taken) mark(cmd site.TakenCommand, kept, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byID[cmd.ID]; ok {
		known.Outcome, known.Ended, known.kept, known.whole = cmd.Outcome, cmd.Ended, kept, whole
	}
}

// end keeps how a command ended.
func (t *taken) end(id string, outcome site.Outcome, at time.Time) {
	t.mu.Lock()
	known, ok := t.byID[id]
	if !ok {
		t.mu.Unlock()
		return
	}
	known.Outcome, known.Ended, known.whole = outcome, at, false
	cmd := *known
	t.mu.Unlock()
	if t.stalled.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), takePatience)
	defer cancel()
	t.keep(ctx, cmd)
}

// keep brings on disk what of a command is not there; false when the disk does not
// take it.
func (t *taken) keep(ctx context.Context, cmd takenCommand) bool {
	if !cmd.kept {
		begun := cmd.TakenCommand
		begun.Outcome, begun.Ended = site.Requested, time.Time{}
		err := t.store.TakeCommand(ctx, begun)
		if !fault.Is(err, fault.Conflict) && !t.heard(err) {
			return false
		}
	}
	if cmd.Outcome != site.Requested {
		err := t.store.EndCommand(ctx, cmd.ID, cmd.Outcome, cmd.Ended)
		if !fault.Is(err, fault.NotFound) && !t.heard(err) { // it may be forgotten by now
			return false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byID[cmd.ID]; ok {
		known.kept, known.whole = true, known.Outcome == cmd.Outcome && cmd.Outcome != site.Requested
	}
	return true
}

// heard takes what the disk said; true when it has done what it was asked for.
func (t *taken) heard(err error) bool {
	if err == nil {
		if t.stalled.Swap(false) {
			t.log.Info("the ids of cloud commands are kept on disk again")
		}
		return true
	}
	if !t.stalled.Swap(true) {
		t.log.Error("storage fails; doors still open, the ids of cloud commands are kept in memory", "error", err)
	}
	return false
}

// tidy brings on disk what it did not take before, and forgets what no clock could
// accept again. One at a time may call it.
func (t *taken) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, takePatience)
	defer cancel()
	for _, cmd := range t.unkept() {
		if !t.keep(ctx, cmd) {
			return
		}
	}
	if time.Since(t.looked) < forgetEvery {
		return
	}
	t.looked = time.Now()
	if err := t.forget(ctx); err != nil {
		t.log.Warn("old ids of cloud commands are not forgotten yet", "error", err)
	}
}

// unkept gives the commands of which something may not be on disk.
func (t *taken) unkept() (all []takenCommand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cmd := range t.byID {
		if !cmd.whole {
			all = append(all, *cmd)
		}
	}
	return all
}

// forget removes the ids of commands that ended before the time that the disk is sure
// of and before that of the present clock, which may not have followed yet.
func (t *taken) forget(ctx context.Context) error {
	if !t.holdsBefore(t.clock.Now().Add(-forgetMargin)) {
		return nil // and the disk is left alone
	}
	sure, err := t.store.Floor(ctx)
	if err != nil {
		return err
	}
	if now := t.clock.Now(); now.Before(sure) {
		sure = now
	}
	before := sure.Add(-forgetMargin)
	if !t.holdsBefore(before) {
		return nil
	}
	if _, err := t.store.ForgetCommands(ctx, before); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, cmd := range t.byID {
		if cmd.Until.Before(before) {
			delete(t.byID, id)
		}
	}
	return nil
}

// holdsBefore reports whether there is a command that ended before that time.
func (t *taken) holdsBefore(when time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cmd := range t.byID {
		if cmd.Until.Before(when) {
			return true
		}
	}
	return false
}
