package station

import (
	"context"
	"errors"
	"slices"
	"time"

	"gatehouse/internal/site"
)

const (
	// coarse is how far lastConnection may run ahead of the disk when nothing
	// else changed.
	coarse = 10 * time.Minute
	// catchUpEvery is how often records that were left out are made up for.
	catchUpEvery = 5 * time.Second
	// flushBatch bounds one transaction of states.
	flushBatch = 256
	// flushDeadline bounds one flush, the last one included.
	flushDeadline = 20 * time.Second
)

// Run writes changed states now and then, makes up for records that were left out
// every few seconds, and does both once more when ctx ends; then it returns nil. Storage that fails is logged once and tried again at the next
// turn.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.flushEvery)
	defer ticker.Stop()
	behind := time.NewTicker(catchUpEvery)
	defer behind.Stop()
	for {
		select {
		case <-behind.C:
			s.catchUp(slices.DeleteFunc(s.all(), func(l *live) bool { return !l.behind() }))
		case <-ticker.C:
			s.settle(ctx)
		case <-ctx.Done():
			s.settle(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// settle brings the journal and the store up to date.
func (s *Service) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushDeadline)
	defer cancel()
	stations := s.all()
	s.catchUp(stations)
	s.flush(ctx, stations)
}

// catchUp brings the journal up to date.
func (s *Service) catchUp(stations []*live) {
	for _, l := range stations {
		_ = s.transition(l.id, (*live).catchUp)
	}
}

// flush saves what changed. It takes no turns: the store passes over what was
// removed meanwhile, what changed meanwhile is saved by the next flush, and a new
// station waits for this one (see checkFree).
func (s *Service) flush(ctx context.Context, stations []*live) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	var failed error
	for batch := range slices.Chunk(unsaved(stations), flushBatch) {
		if err := s.save(ctx, batch); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	s.noteFlush(failed)
}

// save writes one batch; when that fails, its stations stay to be saved.
func (s *Service) save(ctx context.Context, batch []*live) error {
	states := make([]SavedState, len(batch))
	for i, l := range batch {
		states[i] = l.forSaving()
	}
	err := s.store.SaveStates(ctx, states)
	for i, l := range batch {
		l.saveEnded(states[i].LastConnection, err)
	}
	return err
}

// noteFlush logs when saving begins to fail and when it works again; flushing is
// held.
func (s *Service) noteFlush(err error) {
	switch {
	case err != nil && !s.flushFailing:
		s.logger.Warn("station states cannot be saved; they are kept in memory", "error", err)
	case err == nil && s.flushFailing:
		s.logger.Info("station states are saved again")
	}
	s.flushFailing = err != nil
}

// unsaved picks the stations whose state the disk does not have.
func unsaved(stations []*live) []*live {
	var out []*live
	for _, l := range stations {
		if l.needsSaving() {
			out = append(out, l)
		}
	}
	return out
}

func (l *live) needsSaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.removed && (l.dirty || l.heard.Sub(l.saved) > coarse)
}

func (l *live) forSaving() SavedState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty = false
	return SavedState{
		Station: l.id, BatteryVoltage: l.battery, Firmware: l.firmware,
		LastConnection: site.At(l.heard).Time, Locks: l.lockStates(),
	}
}

func (l *live) saveEnded(heard time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.dirty = true
		return
	}
	l.saved = heard
}
