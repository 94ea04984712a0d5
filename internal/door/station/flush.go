package station

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/site"
)

const (
	// mostLost is how much of lastConnection and of the battery a power cut may cost.
	// Changes of locks are in the journal, which is durable at once.
	mostLost = 10 * time.Minute
	// catchUpEvery is how often records that were left out are made up for.
	catchUpEvery = 5 * time.Second
	// flushDeadline bounds one flush, the last one included.
	flushDeadline = 20 * time.Second
)

// Run writes changed states now and then, makes up for records that were left out
// every few seconds, and does both once more when ctx ends; then it returns nil. A failure
// of the storage is logged once and retried at the next tick.
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

// flush saves what changed. If stations were only heard, it saves that only when the
// next flush would be too late. The store ignores the states of stations that were removed
// meanwhile; what changed meanwhile is saved by the next flush.
func (s *Service) flush(ctx context.Context, stations []*live) {
	unsaved, urgent := unsaved(stations)
	now := time.Now()
	if !urgent && (len(unsaved) == 0 || now.Sub(s.flushed) < mostLost-s.flushEvery) {
		return
	}
	s.flushed = now
	s.noteFlush(s.save(ctx, unsaved))
}

// save writes states; if that fails, they remain unsaved.
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

// noteFlush logs when saving begins to fail and when it works again.
func (s *Service) noteFlush(err error) {
	switch {
	case err != nil && !s.flushFailing:
		s.logger.Warn("station states cannot be saved; they are kept in memory", "error", err)
	case err == nil && s.flushFailing:
		s.logger.Info("station states are saved again")
	}
	s.flushFailing = err != nil
}

// unsaved picks the stations whose state the disk does not have. It is urgent if more
// changed than the time they were heard.
func unsaved(stations []*live) (out []*live, urgent bool) {
	for _, l := range stations {
		changed, dirty := l.needsSaving()
		if changed {
			out = append(out, l)
		}
		urgent = urgent || dirty
	}
	return out, urgent
}

func (l *live) needsSaving() (changed, dirty bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return false, false
	}
	return l.dirty || site.At(l.heard).After(l.saved), l.dirty
}

func (l *live) forSaving() SavedState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty = false
	return SavedState{
		Station: l.id, Enrolled: l.enrolled.Load().station.Enrolled, BatteryVoltage: l.battery, Firmware: l.firmware,
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
