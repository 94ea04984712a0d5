package cloudlink

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// restored keeps a gateway that was restored from a backup from carrying out again what
// it took after the backup, of which it knows nothing: it takes only commands that were
// issued since a trusted clock has first told the time. On any other gateway it admits
// all.
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
		return "the gateway was restored from a backup after this was signed; sign a new command"
	}
	return ""
}

// settle takes the moment from a trusted clock, and keeps it. One that is not kept is
// told anew after a restart, which is later still.
func (r *restored) settle(ctx context.Context) {
	r.mu.Lock()
	if r.waiting && r.clock.Trusted() {
		r.from, r.waiting, r.unsaved = r.clock.Now(), false, true
		r.log.Info("commands of the cloud are taken again after a restore", "from", site.At(r.from).String())
	}
	from, unsaved := r.from, r.unsaved
	r.mu.Unlock()
	if !unsaved {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, takePatience)
	defer cancel()
	if err := r.store.SaveCommandsFrom(ctx, from); err != nil {
		return // tried again soon
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = false
}
