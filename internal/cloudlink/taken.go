package cloudlink

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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
	// crowded is from how many on those are forgotten that only the present clock is past.
	crowded = maxTaken * 9 / 10
	// maxUnderWay bounds the commands that are carried out at once.
	maxUnderWay = 256
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
	// CommandsFrom says since when the commands were issued that may be taken; waiting:
	// since no moment yet. The zero time on a gateway that was never restored from a
	// backup and never forgot a command before its time.
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
	disk
	store  CommandStore
	clock  site.Clock
	log    *slog.Logger
	since  *restored
	places chan struct{} // capacity maxUnderWay; each command that is carried out holds one
	looked time.Time     // when old ids were last looked for; only tidy touches it

	mu     sync.Mutex // mu guards what follows
	byID   map[string]*takenCommand
	ending bool // none is taken any more
}

// takenCommand is a command that was taken, and what of it is on disk.
type takenCommand struct {
	site.TakenCommand
	kept    bool // the id
	whole   bool // all of it
	writing bool // take writes the id, and nobody else does
}

func newTaken(store CommandStore, clock site.Clock, log *slog.Logger, since *restored) *taken {
	return &taken{
		disk: newDisk(log), store: store, clock: clock, log: log, since: since, looked: time.Now(),
		places: make(chan struct{}, maxUnderWay), byID: make(map[string]*takenCommand),
	}
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

// take takes an id that was never taken before: then reason is "", the id is durable,
// or kept in memory while the storage fails, and the command has a place until leave is
// called. Of a repeated one it gives how it stands.
func (t *taken) take(ctx context.Context, id string, until time.Time) (first site.TakenCommand, reason cloudcommand.Reason) {
	cmd := site.TakenCommand{ID: id, Until: until, Outcome: site.Requested}
	if first, reason = t.claim(cmd); reason != "" {
		return first, reason
	}
	if t.stalled() {
		t.written(id, false)
		return cmd, ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takePatience)
	defer cancel()
	err := t.ask(ctx, func(ctx context.Context) error {
		err := t.store.TakeCommand(ctx, cmd)
		t.written(id, err == nil || fault.Is(err, fault.Conflict))
		return err
	})
	if errors.Is(err, errLate) { // another call has become so since
		t.written(id, false)
	}
	if fault.Is(err, fault.Conflict) { // it is on disk, and neither load nor this process has put it there
		cmd.Outcome = site.Unresolved
		t.settle(cmd)
		t.leave()
		return cmd, cloudcommand.Repeated
	}
	return cmd, ""
}

// claim takes an id in memory, and a place. Of many at once it lets one pass.
func (t *taken) claim(cmd site.TakenCommand) (first site.TakenCommand, reason cloudcommand.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byID[cmd.ID]; ok {
		return known.TakenCommand, cloudcommand.Repeated
	}
	if t.ending || len(t.byID) >= maxTaken {
		return first, cloudcommand.Busy
	}
	select {
	case t.places <- struct{}{}:
	default:
		return first, cloudcommand.Busy
	}
	t.byID[cmd.ID] = &takenCommand{TakenCommand: cmd, writing: true}
	return first, ""
}

// leave gives a command's place back.
func (t *taken) leave() { <-t.places }

// drain waits until no command is carried out, or until ctx ends. From then on none is
// taken.
func (t *taken) drain(ctx context.Context) {
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	for range maxUnderWay {
		select {
		case t.places <- struct{}{}: // and it is not given back
		case <-ctx.Done():
			return
		}
	}
}

// written says that take writes the id no more, and whether it is on disk.
func (t *taken) written(id string, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byID[id]; ok {
		known.kept, known.writing = kept, false
	}
}

// settle says how a command of which all is on disk stands.
func (t *taken) settle(cmd site.TakenCommand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byID[cmd.ID]; ok {
		known.Outcome, known.Ended, known.whole = cmd.Outcome, cmd.Ended, true
	}
}

// end notes how a command ended; keep then brings that on disk.
func (t *taken) end(id string, outcome site.Outcome, at time.Time) (keep func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.byID[id]
	if !ok {
		return func() {}
	}
	known.Outcome, known.Ended, known.whole = outcome, at, false
	cmd := *known
	return func() {
		if cmd.writing || t.stalled() {
			return // tidy brings it on disk
		}
		ctx, cancel := context.WithTimeout(context.Background(), takePatience)
		defer cancel()
		t.keep(ctx, cmd)
	}
}

// keep brings on disk what of a command is not there; false when the disk does not
// take it in time.
func (t *taken) keep(ctx context.Context, cmd takenCommand) bool {
	return t.ask(ctx, func(ctx context.Context) error {
		if !cmd.kept {
			begun := cmd.TakenCommand
			begun.Outcome, begun.Ended = site.Requested, time.Time{}
			if err := t.store.TakeCommand(ctx, begun); !answered(err) {
				return err
			}
		}
		if cmd.Outcome != site.Requested {
			if err := t.store.EndCommand(ctx, cmd.ID, cmd.Outcome, cmd.Ended); !answered(err) {
				return err
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if known, ok := t.byID[cmd.ID]; ok {
			known.kept, known.whole = true, known.Outcome == cmd.Outcome && cmd.Outcome != site.Requested
		}
		return nil
	}) == nil
}

// tidy brings on disk what it did not take before, and forgets what no clock could
// accept again. One at a time may call it.
func (t *taken) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, takePatience)
	defer cancel()
	if !t.idle(ctx) {
		return
	}
	for _, cmd := range t.unkept() {
		if !t.keep(ctx, cmd) {
			return
		}
	}
	if time.Since(t.looked) < forgetEvery && !t.crowded() {
		return
	}
	if !t.lastBefore(t.clock.Now().Add(-forgetMargin)).IsZero() { // else the disk is left alone
		if err := t.ask(ctx, t.forget); err != nil {
			t.log.Warn("old ids of cloud commands are not forgotten yet", "error", err)
		}
		if t.stalled() {
			return // asked again soon: nothing else would find out that it answers
		}
	}
	t.looked = time.Now()
}

// unkept gives the commands of which something may not be on disk that is there to be
// kept, but those that take brings there.
func (t *taken) unkept() (all []takenCommand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cmd := range t.byID {
		if under := cmd.kept && cmd.Outcome == site.Requested; !under && !cmd.whole && !cmd.writing {
			all = append(all, *cmd)
		}
	}
	return all
}

// forget removes the ids of commands that ended before the time that the disk is sure
// of and before that of the present clock, which may not have followed yet. Where the
// disk is sure of too little, the present clock has to do: then nothing is taken any
// more that was issued before the end of what is forgotten, whatever a clock says later.
func (t *taken) forget(ctx context.Context) error {
	past := t.clock.Now().Add(-forgetMargin)
	before, err := t.store.Floor(ctx)
	if err != nil {
		return err
	}
	if before = before.Add(-forgetMargin); past.Before(before) {
		before = past
	}
	if err := t.remove(ctx, before); err != nil || !t.crowded() {
		return err
	}
	last := t.lastBefore(past)
	if last.IsZero() {
		return nil
	}
	end := last.Truncate(time.Millisecond).Add(time.Millisecond) // as the disk keeps times
	if err := t.since.advance(ctx, end); err != nil {
		return err
	}
	return t.remove(ctx, end)
}

// remove forgets the commands that ended before that time.
func (t *taken) remove(ctx context.Context, before time.Time) error {
	if t.lastBefore(before).IsZero() {
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

// crowded reports whether there is little room for more.
func (t *taken) crowded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID) >= crowded
}

// lastBefore gives the latest end of a command that ended before that time, or zero.
func (t *taken) lastBefore(when time.Time) (last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cmd := range t.byID {
		if cmd.Until.Before(when) && cmd.Until.After(last) {
			last = cmd.Until
		}
	}
	return last
}
