package access

import (
	"time"

	"gatehouse/internal/site"
)

// Denial returns why account may not unlock station now, where [Service.Permits] says that
// it may not. Cheap and without allocation.
func (s *Service) Denial(account site.AccountID, station site.StationID) site.Denial {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	why := site.NoGrant
	s.dir.wanted.each(account, station, func(g site.Grant) bool {
		if !g.Ended(now) {
			why = site.OutsideHours
		} else if why == site.NoGrant {
			why = site.GrantEnded
		}
		return true
	})
	return why
}

// Closed lists the stations that account may not use now, but by one of its grants again
// within a year, in order.
func (s *Service) Closed(account site.AccountID) (closed []site.Closed) {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	if s.dir.accounts[account] == nil {
		return nil
	}
	for _, station := range s.dir.wanted.stations(account) {
		if s.dir.wanted.permit(account, station, now, s.dir.zone) {
			continue
		}
		if at, ok := s.dir.wanted.reopens(account, station, now, s.dir.zone); ok {
			closed = append(closed, site.Closed{Station: station, OpensAgain: site.At(at)})
		}
	}
	return closed
}

// reopens returns when the first of an account's grants for a station holds again.
func (r *rules) reopens(account site.AccountID, station site.StationID, now time.Time, zone *time.Location) (at time.Time, ok bool) {
	r.each(account, station, func(g site.Grant) bool {
		if opens, again := g.Reopens(now, zone, r.calendar); again && (!ok || opens.Before(at)) {
			at, ok = opens, true
		}
		return true
	})
	return at, ok
}
