package unlock

import "gatehouse/internal/site"

// deny counts a request that is refused for want of a right, and writes the record that is
// due: at most one a minute for each account and station. It looks up the same whatever the
// reason. The cloud link has records of its own of what it refuses.
func (s *Service) deny(req Request) {
	s.Metrics.Refused("unlock-not-permitted")
	why := s.Permissions.Denial(req.Actor.Account, req.Station)
	known, enrolled := s.Doors.HasLock(req.Station, req.Lock), s.Doors.HasLock(req.Station, 1)
	if !enrolled {
		req.Station = 0
	}
	facts := site.ByActor(req.Actor)
	facts.Session, facts.Station, facts.Detail = "", req.Station, string(why)
	if known {
		facts.Lock = req.Lock.String()
	} else {
		facts.Detail = string(site.UnknownDoor)
	}
	if req.JTI != "" {
		return
	}
	if facts, due := s.denials.Note(use{facts.Account, facts.Station}, facts, req.Accepted); due {
		s.recordDenials(facts)
	}
}

func (s *Service) recordDenials(facts site.Facts) {
	s.Journal.AppendLater(site.Record{Kind: site.KindDenied, Facts: facts})
}
