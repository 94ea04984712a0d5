package station

import (
	"cmp"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// detailTakeover is the detail of a record of presence.
const detailTakeover = "a second connection took over"

// Connected sets the connection of a station, which authenticated under that
// generation, and replaces the one before in the same step. It fails with
// [fault.Unauthenticated] when the secret has been replaced since, with
// [fault.Conflict] when the station has a later connection already, and with
// [fault.NotFound] when the station has been removed: the connection must then be
// ended.
func (s *Service) Connected(id site.StationID, connection site.ConnectionID, generation uint64, remote string) error {
	var refused error
	err := s.transition(id, func(l *live, e *effect) {
		switch {
		case l.enrolled.Load().generation != generation:
			refused = fault.New(fault.Unauthenticated, "The secret of the station has been replaced")
			return
		case connection <= l.connection:
			refused = fault.New(fault.Conflict, "A later connection of the station has taken over")
			return
		}
		facts := site.Facts{Remote: remote}
		if l.online() {
			facts.Detail = detailTakeover
		}
		l.heard = e.now
		l.setConnection(e, connection)
		l.recordPresence(e, facts)
	})
	return cmp.Or(err, refused)
}

// Disconnected notes the end of a connection, and reports whether that took the station
// offline; reason is a constant sentence for the journal. Only the end of the station's
// present connection does. For one that was replaced or refused, or whose end is known,
// Disconnected does nothing.
func (s *Service) Disconnected(id site.StationID, connection site.ConnectionID, reason string) (offline bool) {
	_ = s.transition(id, func(l *live, e *effect) {
		if offline = l.online() && l.connection == connection; !offline {
			return
		}
		l.setConnection(e, 0)
		l.recordPresence(e, site.Facts{Detail: reason})
	})
	return offline
}

// Heard notes that a packet of the station has come in.
func (s *Service) Heard(id site.StationID) {
	now := s.cfg.Clock.Now()
	s.with(id, func(l *live) { l.heard = now })
}

// Online is how many stations have a live connection.
func (s *Service) Online() (n int) {
	for _, l := range s.all() {
		l.mu.Lock()
		if l.online() {
			n++
		}
		l.mu.Unlock()
	}
	return n
}

// setConnection changes the connection of a station, 0 for none.
func (l *live) setConnection(e *effect, connection site.ConnectionID) {
	before := l.online()
	l.connection, l.connected = connection, e.moment
	e.event = l.online() != before
}

// recordPresence records the present presence, as far as allowed.
func (l *live) recordPresence(e *effect, facts site.Facts) {
	kind := site.KindStationOffline
	if l.online() {
		kind = site.KindStationOnline
	}
	facts.Station = l.id
	e.record(&l.presence, kind, facts)
}

// recordLock records the present status of a lock, as far as allowed.
func (l *live) recordLock(e *effect, id site.LockID, detail string) {
	k := &l.locks[id-1]
	e.record(&k.changes, site.KindLockChanged, site.Facts{Station: l.id, Lock: id.String(), Status: k.status, Detail: detail})
}
