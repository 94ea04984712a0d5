package station

import (
	"cmp"
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// The rates of records that one station may cause: of presence at most 60 in any minute. A
// station that flaps, broken or hostile, fills no journal; whatever was left out is counted
// in the next record, and the journal is brought up to date once there is room.
func presenceRate() throttle.Rate { return throttle.Rate{Burst: 30, Every: 2 * time.Second} }

func lockRate() throttle.Rate {
	return throttle.Rate{Burst: 2 * site.MaxLocks, Every: 2 * time.Second}
}
func batteryRate() throttle.Rate { return throttle.Rate{Burst: 2, Every: time.Hour} }

// Sentences of presence records.
const (
	detailTakeover = "a second connection took over"
	detailCaughtUp = "changed too often for a record each"
)

// Connected sets the connection of a station, which authenticated under that
// generation, and replaces the one before in the same step. It fails with
// [fault.Unauthenticated] when the secret has been replaced since, with
// [fault.Conflict] when the station has a later connection already, and with
// [fault.NotFound] when the station has been removed: the connection must then be
// ended.
func (s *Service) Connected(id site.StationID, connection site.ConnectionID, generation uint64, remote string) error {
	var refused error
	err := s.transition(id, func(l *live, e *effect, now time.Time) {
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
		l.heard = now
		l.setConnection(e, connection)
		l.recordPresence(e, facts, now)
	})
	return cmp.Or(err, refused)
}

// Disconnected notes the end of a connection, and reports whether that took the station
// offline; reason is a constant sentence for the journal. Only the end of the station's
// present connection does. For one that was replaced or refused, or whose end is known,
// Disconnected does nothing.
func (s *Service) Disconnected(id site.StationID, connection site.ConnectionID, reason string) (offline bool) {
	_ = s.transition(id, func(l *live, e *effect, now time.Time) {
		if offline = l.online() && l.connection == connection; !offline {
			return
		}
		l.setConnection(e, 0)
		l.recordPresence(e, site.Facts{Detail: reason}, now)
	})
	return offline
}

// Heard notes that a packet of the station has come in.
func (s *Service) Heard(id site.StationID) {
	l, ok := s.find(id)
	if !ok {
		return
	}
	now := s.cfg.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = now
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
	l.connection = connection
	e.event = l.online() != before
}

// recordPresence notes a record of the present presence, as far as allowed.
func (l *live) recordPresence(e *effect, facts site.Facts, now time.Time) {
	skipped, ok := l.presenceSpan.take(now, presenceRate())
	if !ok {
		return
	}
	l.presenceRecorded = l.online()
	kind := site.KindStationOffline
	if l.online() {
		kind = site.KindStationOnline
	}
	facts.Station, facts.Count = l.id, skipped
	e.note(kind, facts)
}

// recordLock notes a record of the present status of a lock, as far as allowed.
func (l *live) recordLock(e *effect, id site.LockID, detail string, now time.Time) {
	skipped, ok := l.lockSpan.take(now, lockRate())
	if !ok {
		return
	}
	k := &l.locks[id-1]
	k.recorded = k.status
	e.note(site.KindLockChanged, site.Facts{
		Station: l.id, Lock: id.String(), Status: k.status, Detail: detail, Count: skipped,
	})
}

// presenceBehind reports whether changes of presence were left out that no record
// counts yet; mu is held.
func (l *live) presenceBehind() bool {
	return l.presenceRecorded != l.online() || l.presenceSpan.skipped > 0
}

// catchUp brings the journal up to date where records were left out: of presence whenever
// some were, of a lock when its last record no longer holds.
func (l *live) catchUp(e *effect, now time.Time) {
	if l.presenceBehind() && l.presenceSpan.open(now, presenceRate()) {
		l.presenceSpan.forgive()
		l.recordPresence(e, site.Facts{Detail: detailCaughtUp}, now)
	}
	for i, k := range l.locks {
		if k.recorded != k.status && l.lockSpan.open(now, lockRate()) {
			l.lockSpan.forgive()
			l.recordLock(e, site.LockID(i+1), detailCaughtUp, now)
		}
	}
}

// allowance bounds records. The zero allowance has left none out.
type allowance struct {
	bucket  throttle.Bucket
	skipped int // left out since the last one that was allowed
}

// open reports whether take would allow one now.
func (a *allowance) open(now time.Time, r throttle.Rate) bool { return a.bucket.Wait(now, r) == 0 }

// take allows a record or skips it, and returns how many were skipped before the one that
// it allows.
func (a *allowance) take(now time.Time, r throttle.Rate) (skipped int, ok bool) {
	if !a.open(now, r) {
		a.skipped++
		return 0, false
	}
	a.bucket.Take(now, r)
	skipped, a.skipped = a.skipped, 0
	return skipped, true
}

// forgive uncounts one that was skipped, because it is recorded after all.
func (a *allowance) forgive() { a.skipped = max(a.skipped-1, 0) }
