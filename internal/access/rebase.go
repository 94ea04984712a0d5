package access

import (
	"context"
	"maps"
	"time"

	"gatehouse/internal/site"
)

// ClockStepped is to be called when the clock has become trusted and jumped forward by
// step. Sessions that were alive just before and began under the untrusted clock keep the
// life that they had left; the others are judged by the new time. None lives longer than
// 30 days from now. It waits for no store: [Service.Run] writes the new expiries.
//
// It must be called for a step of zero too: otherwise a session from before would
// still count as resting on an untrusted clock at a later step, and outlive its 30
// days.
func (s *Service) ClockStepped(step time.Duration) {
	s.dir.rebase(s.clock.Now(), max(step, 0))
	s.storeSoon()
}

// retryRebased stores the new expiries that the store does not hold yet. Two calls at a
// time do no harm: a session is rebased once, so both write the same, and the store
// passes over sessions that have ended meanwhile.
func (s *Service) retryRebased(ctx context.Context) error {
	s.dir.mu.RLock()
	expires := maps.Clone(s.dir.rebased)
	s.dir.mu.RUnlock()
	if len(expires) == 0 {
		return nil
	}
	err := s.write(ctx, "storing the new expiry of sessions", func(ctx context.Context) error {
		return s.store.RebaseSessions(ctx, expires)
	})
	if err != nil {
		return err
	}
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	maps.DeleteFunc(s.dir.rebased, func(id site.SessionID, at time.Time) bool { return at.Equal(expires[id]) })
	return nil
}

// rebase carries the sessions that began under an untrusted clock over a step to now, and
// shortens those that would live longer than a new one. Those that had expired before the
// step stay expired by just as much.
func (d *directory) rebase(now time.Time, step time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		expires := s.Expires.Time
		if !s.ClockTrusted {
			expires = expires.Add(step)
		}
		if latest := latestExpiry(now); expires.After(latest) { // it began under a wrong time that was reset since
			expires = latest
		}
		if !s.ClockTrusted || !expires.Equal(s.Expires.Time) {
			d.rebaseTo(s, expires)
		}
	}
}

// rebaseNew restores the whole life of a session that was stored while the clock may have
// stepped.
func (d *directory) rebaseNew(s *session, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rebaseTo(s, latestExpiry(now))
}

// rebaseTo sets an expiry that rests on a trusted clock, also of the device that began the
// session, which is known until the same moment. The caller holds mu.
func (d *directory) rebaseTo(s *session, expires time.Time) {
	if a := d.accounts[s.Account]; a != nil {
		for sum, until := range a.devices {
			if until.Equal(s.Expires.Time) {
				a.devices[sum] = expires
			}
		}
	}
	s.Expires, s.ClockTrusted = site.At(expires), true
	d.rebased[s.ID] = expires
}

// latestExpiry is when a session ends that begins now.
func latestExpiry(now time.Time) time.Time { return site.At(now.Add(sessionLife)).Time }
