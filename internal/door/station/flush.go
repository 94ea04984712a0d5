package station

import (
	"context"
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
// every few seconds, and does both once more when ctx ends; then it returns nil. States that
// the storage does not accept are tried again at the next tick.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.FlushEvery)
	defer ticker.Stop()
	behind := time.NewTicker(catchUpEvery)
	defer behind.Stop()
	for {
		select {
		case <-behind.C:
			s.catchUp()
		case <-ticker.C:
			s.settle(ctx)
		case <-ctx.Done():
			for _, l := range s.all() {
				_ = s.transition(l.id, (*live).allowLast)
			}
			s.settle(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// settle brings the journal and the store up to date.
func (s *Service) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushDeadline)
	defer cancel()
	s.catchUp()
	if err := s.flush(ctx); err != nil {
		s.cfg.Logger.Warn("station states cannot be saved; they are kept in memory", "error", err)
	}
}

// catchUp brings the alarms and the journal up to date.
func (s *Service) catchUp() {
	for _, l := range s.all() {
		_ = s.transition(l.id, func(l *live, e *effect) {
			l.catchUp(e)
			l.updateDoors(e)
			s.updateAlarms(l, e)
		})
	}
	s.reportAlarms()
}

// flush saves the states that the disk does not have. If stations were only heard, it saves
// that only when the next flush would be too late. The store ignores the states of stations
// that were removed meanwhile; what changed meanwhile, and what could not be saved, is saved
// by the next flush.
func (s *Service) flush(ctx context.Context) error {
	var unsaved []*live
	urgent := false
	for _, l := range s.all() {
		l.mu.Lock()
		if !l.removed && (l.dirty || site.At(l.heard).After(l.saved)) {
			unsaved = append(unsaved, l)
			urgent = urgent || l.dirty
		}
		l.mu.Unlock()
	}
	now := time.Now()
	if !urgent && (len(unsaved) == 0 || now.Sub(s.flushed) < mostLost-s.cfg.FlushEvery) {
		return nil
	}
	s.flushed = now
	states := make([]SavedState, len(unsaved))
	for i, l := range unsaved {
		states[i] = l.forSaving(s.cfg.Clock.Now())
	}
	err := s.cfg.Store.SaveStates(ctx, states)
	for i, l := range unsaved {
		l.mu.Lock()
		if err != nil {
			l.dirty = true
		} else {
			l.saved = states[i].LastConnection
			if l.point == states[i].Point {
				l.point.Volts = 0 // it is saved
			}
		}
		l.mu.Unlock()
	}
	return err
}

func (l *live) forSaving(now time.Time) SavedState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty = false
	return SavedState{
		At: now, Station: l.id, Enrolled: l.enrolled.Load().station.Enrolled, BatteryVoltage: l.battery, Firmware: l.firmware, ByResult: l.byResult,
		LastConnection: site.At(l.heard).Time, Locks: l.lockStates(), Alarms: l.standing(), Point: l.point,
	}
}
