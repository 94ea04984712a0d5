package cloudlink

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gatehouse/internal/cloudcommand"
	"gatehouse/internal/site"
)

// restored keeps a gateway from carrying out again what it took and does not know any
// more: one that was restored from a backup, of all that came after it, takes only
// commands that were issued since a trusted clock has first told the time, and by then
// could not have been taken from a signer whose clock is ahead; one that had
// to forget commands before their time, only those that were issued since their end.
// On any other gateway it admits all.
type restored struct {
	store CommandStore
	clock site.Clock
	log   *slog.Logger

	mu      sync.Mutex // mu guards what follows
	from    time.Time  // commands are taken that were issued from then on
	waiting bool       // for that moment: none is taken
	unsaved bool       // it is not on disk
}

// load reads how it stands.
func (r *restored) load(ctx context.Context) error {
	from, waiting, err := r.store.CommandsFrom(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from, r.waiting = from, waiting
	return err
}

// admits says why a command that was issued then is not taken, or "".
func (r *restored) admits(issued time.Time) (message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.waiting:
		return "the gateway was restored from a backup, and takes commands when the system says that its clock is synchronised"
	case issued.Before(r.from):
		return "the gateway may have carried this out and not know it any more, after a restore from a backup or very many commands; sign a new command"
	}
	return ""
}

// settle takes the moment from a trusted clock, and says whether one is to be saved. One
// that is not is told anew after a restart, which is later still.
func (r *restored) settle() (unsaved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting && r.clock.Trusted() {
		r.from, r.waiting, r.unsaved = r.clock.Now().Add(cloudcommand.MaxAhead), false, true
		r.log.Info("commands of the cloud are taken again after a restore", "from", site.At(r.from).String())
	}
	return r.unsaved
}

// advance sees to it, also on disk, that nothing is taken any more that was issued before
// that time. It fails on a gateway that still waits, which takes nothing.
func (r *restored) advance(ctx context.Context, end time.Time) error {
	r.mu.Lock()
	if r.waiting {
		r.mu.Unlock()
		return errWaiting
	}
	if r.from.Before(end) {
		r.from, r.unsaved = end, true
		r.log.Warn("very many commands of the cloud; those that were issued earlier are taken no more", "from", site.At(end).String())
	}
	r.mu.Unlock()
	return r.save(ctx)
}

// errWaiting says that nothing can be forgotten before its time yet.
var errWaiting = errors.New("the gateway was restored from a backup and no trusted clock has told the time")

// save keeps the moment.
func (r *restored) save(ctx context.Context) error {
	r.mu.Lock()
	from, unsaved := r.from, r.unsaved
	r.mu.Unlock()
	if !unsaved {
		return nil
	}
	if err := r.store.SaveCommandsFrom(ctx, from); err != nil {
		return err // tried again soon
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = !r.from.Equal(from)
	return nil
}
