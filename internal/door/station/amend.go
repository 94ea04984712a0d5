package station

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Hold locks these stations until release is called; amendments are drafted, stored and
// adopted in between. [fault.Timeout] or [fault.Unavailable] when ctx ends first, or the
// store takes too long. No other caller may hold two stations at once.
func (s *Service) Hold(ctx context.Context, ids []site.StationID) (release func(), err error) {
	var held []func()
	release = func() {
		for _, give := range held {
			give()
		}
	}
	slices.Sort(ids) // always in the same order: no deadlock
	for _, id := range slices.Compact(ids) {
		give, err := s.take(ctx, id)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, give)
	}
	if err := s.awaitFlush(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// awaitFlush waits for a flush in progress, which may hold the state of a former
// station with the id of a new one; [fault.Unavailable] if the store does not end it.
func (s *Service) awaitFlush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeDeadline)
	defer cancel()
	give, err := s.flushing.Take(ctx, flush{})
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The storage does not answer: the states of stations are still being saved", err)
	}
	give()
	return nil
}

// Draft drafts a new station. [fault.Invalid] when the request cannot be right. The
// store checks whether id and token are free.
func (s *Service) Draft(by site.Actor, r EnrolRequest) (Enrolled, site.Amendment, error) {
	r, err := r.complete()
	if err != nil {
		return Enrolled{}, site.Amendment{}, err
	}
	st := s.fresh(r)
	return Enrolled{Station: st, Token: r.Token, Secret: r.Secret},
		site.Amendment{AddStation: &st, Record: record(site.KindStationAdded, by, st.ID, "")}, nil
}

// DraftUpdate drafts another name and number of locks for st, and sets them in st.
// [fault.Invalid].
func (s *Service) DraftUpdate(by site.Actor, st *site.Station, name string, locks int) (site.Amendment, error) {
	name, err := cleanName(name)
	if err != nil {
		return site.Amendment{}, err
	}
	if err := checkLocks(locks); err != nil {
		return site.Amendment{}, err
	}
	detail := whatChanged(st.Name != name, st.Locks != locks)
	st.Name, st.Locks = name, locks
	return amendment(site.KindStationChanged, by, *st, detail), nil
}

// DraftToken drafts another station token for st, and sets it in st. [fault.Invalid].
func (s *Service) DraftToken(by site.Actor, st *site.Station, token site.Secret) (site.Amendment, error) {
	if err := checkToken(token); err != nil {
		return site.Amendment{}, err
	}
	st.Token = token
	return amendment(site.KindStationChanged, by, *st, detailToken), nil
}

// DraftSecret drafts another secret for st, and sets it in st. [fault.Invalid].
func (s *Service) DraftSecret(by site.Actor, st *site.Station, secret site.Secret) (site.Amendment, error) {
	if err := checkSecret(secret); err != nil {
		return site.Amendment{}, err
	}
	st.Secret = hashSecret(secret)
	return amendment(site.KindStationRotated, by, *st, detailGiven), nil
}

// DraftRemoval drafts the removal of a station with its grants.
func (s *Service) DraftRemoval(by site.Actor, id site.StationID) site.Amendment {
	return site.Amendment{RemoveStation: id, Record: record(site.KindStationRemoved, by, id, "")}
}

func amendment(kind site.Kind, by site.Actor, st site.Station, detail string) site.Amendment {
	return site.Amendment{UpdateStation: &st, Record: record(kind, by, st.ID, detail)}
}

// Adopt applies stored amendments. It returns a function that ends the connections of
// stations that were removed or have a new secret; call it once nothing is held.
func (s *Service) Adopt(amendments []site.Amendment) (disconnect func()) {
	var revoked []site.StationID
	for _, a := range amendments {
		switch {
		case a.AddStation != nil:
			s.admit(*a.AddStation)
		case a.UpdateStation != nil:
			if old, ok := s.Station(a.UpdateStation.ID); ok && old.Secret != a.UpdateStation.Secret {
				revoked = append(revoked, a.UpdateStation.ID)
			}
			_ = s.adopt(*a.UpdateStation)
		case a.RemoveStation != 0:
			s.forget(a.RemoveStation)
			revoked = append(revoked, a.RemoveStation)
		}
	}
	return func() {
		for _, id := range revoked {
			s.revoke(id)
		}
	}
}

// admit adds a stored station to those in memory.
func (s *Service) admit(st site.Station) {
	s.put(newLive(st, s.generations.Add(1)))
	_ = s.transition(st.ID, func(_ *live, e *effect, _ time.Time) { e.event = true })
}
