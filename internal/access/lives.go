package access

import "gatehouse/internal/site"

// Lives reports whether the session behind actor is alive right now, with its
// account; true for an actor without a session. Quick.
func (s *Service) Lives(actor site.Actor) bool {
	if actor.Session == "" {
		return true
	}
	_, ok := s.dir.actor(actor.Session, actor.Account, s.clock.Now(), false)
	return ok
}
