package station

import (
	"cmp"
	"context"
	"fmt"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// The details of administrative records.
const (
	detailToken     = "station token changed"
	detailGenerated = "a new secret was generated"
	detailGiven     = "a given secret was set"
	detailDropped   = "the secret was revoked"
	detailMode      = "Home Assistant: "
)

// EnrolRequest is a station to be enrolled. Secret and Token are generated when
// they are empty.
type EnrolRequest struct {
	ID     site.StationID
	Name   string      // for people; see [site.CleanStationName]
	Locks  int         // see [site.ValidLocks]
	Secret site.Secret // see [site.ValidStationSecret]
	Token  site.Secret // see [site.ValidStationToken]

	HomeAssistant site.HomeAssistantMode // "": that of [site.HomeAssistantState]
}

// Enrolled is a new station with the words that are shown this once.
type Enrolled struct {
	Station site.Station
	Token   site.Secret
	Secret  site.Secret
}

// Enrol adds a station. It fails with [fault.Invalid] when the request cannot be
// right, [fault.Conflict] when the id or the token is taken, and, as every change of a
// station may, with [fault.Unavailable] when it cannot be stored.
func (s *Service) Enrol(ctx context.Context, by site.Actor, r EnrolRequest) (Enrolled, error) {
	made, added, err := s.Draft(by, r)
	if err != nil {
		return Enrolled{}, err
	}
	err = s.cfg.Changes.Make(ctx, by, func() ([]site.Amendment, error) { return []site.Amendment{added}, s.checkFree(made) })
	if err != nil {
		return Enrolled{}, err
	}
	return made, nil
}

// complete checks the request and generates what is not given.
func (r EnrolRequest) complete() (EnrolRequest, error) {
	if r.Secret == "" {
		r.Secret = newSecret()
	}
	if r.Token == "" {
		r.Token = newToken()
	}
	r.HomeAssistant = cmp.Or(r.HomeAssistant, site.HomeAssistantState)
	checkID := demand(r.ID.Valid(), "A station id is a number from 1 to %d", site.MaxStationID)
	name, checkName := cleanName(r.Name)
	r.Name = name
	return r, cmp.Or(checkID, checkName, checkLocks(r.Locks), checkSecret(r.Secret), checkToken(r.Token), checkMode(r.HomeAssistant))
}

// checkFree refuses an id or a token that is in use.
func (s *Service) checkFree(made Enrolled) error {
	if _, taken := s.find(made.Station.ID); taken {
		return fault.New(fault.Conflict, fmt.Sprintf("Station %s is enrolled already", made.Station.ID))
	}
	if _, taken := s.ByToken(made.Token); taken {
		return fault.New(fault.Conflict, "Another station has this station token")
	}
	return nil
}

// Patch is what changes of a station; what is nil stays as it is when its turn comes.
type Patch struct {
	Name          *string
	Locks         *int
	HomeAssistant *site.HomeAssistantMode
}

// Update renames a station, sets how many locks it has and what Home Assistant has of it;
// what was known of locks that it no longer has is forgotten. changed is false when it was
// so already. It fails with [fault.NotFound], [fault.Invalid] or
// [fault.Unavailable]. A lower mode takes effect at once, also after Unavailable.
func (s *Service) Update(ctx context.Context, by site.Actor, id site.StationID, p Patch) (changed bool, err error) {
	if p.HomeAssistant != nil {
		lower := site.Amendment{
			LimitStation: &site.StationLimit{Station: id, HomeAssistant: *p.HomeAssistant},
			Record:       record(site.KindStationChanged, by, id, detailMode+string(*p.HomeAssistant)),
		}
		err = s.change(ctx, by, id, s.cfg.Changes.Revoke, func(st *site.Station) (site.Amendment, error) {
			old := *st
			_, err := s.DraftUpdate(by, st, p)
			*st = without(old, lower)
			changed = *st != old
			return lower, err
		})
	}
	if err != nil {
		return false, err
	}
	err = s.change(ctx, by, id, s.cfg.Changes.Make, func(st *site.Station) (a site.Amendment, err error) {
		old := *st
		a, err = s.DraftUpdate(by, st, p)
		changed = changed || *st != old
		return a, err
	})
	return changed && err == nil, err
}

// change makes one change of an enrolled station; draft may leave the station as it is.
func (s *Service) change(ctx context.Context, by site.Actor, id site.StationID,
	commit func(context.Context, site.Actor, func() ([]site.Amendment, error)) error, draft func(*site.Station) (site.Amendment, error),
) error {
	return commit(ctx, by, func() ([]site.Amendment, error) {
		st, ok := s.Station(id)
		if !ok {
			return nil, errNotFound()
		}
		old := st
		a, err := draft(&st)
		if err != nil || a.RemoveStation == 0 && st == old {
			return nil, err
		}
		return []site.Amendment{a}, nil
	})
}

// Rotate sets a new secret of a station. The old one is revoked and the live connection ended
// at once, whatever Rotate returns: [fault.NotFound], or [fault.Unavailable] when the station
// has no secret until Rotate succeeds.
func (s *Service) Rotate(ctx context.Context, by site.Actor, id site.StationID) (site.Secret, error) {
	err := s.change(ctx, by, id, s.cfg.Changes.Revoke, func(st *site.Station) (site.Amendment, error) {
		drop := site.Amendment{DropSecret: id, Record: record(site.KindStationRotated, by, id, detailDropped)}
		*st = without(*st, drop)
		return drop, nil
	})
	if err != nil {
		return "", err
	}
	secret := newSecret()
	err = s.change(ctx, by, id, s.cfg.Changes.Make, func(st *site.Station) (site.Amendment, error) {
		st.Secret = hashSecret(secret)
		return amendment(site.KindStationRotated, by, *st, detailGenerated), nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// Remove ends the enrolment of a station, its grants and its live connection, at once,
// whatever it returns: [fault.NotFound], or [fault.Unavailable] when that could not be stored yet.
func (s *Service) Remove(ctx context.Context, by site.Actor, id site.StationID) error {
	return s.change(ctx, by, id, s.cfg.Changes.Revoke, func(*site.Station) (site.Amendment, error) { return s.DraftRemoval(by, id), nil })
}

// forget ends the enrolment of a station that is removed, and its connection.
func (s *Service) forget(id site.StationID) {
	st, ok := s.Station(id)
	if !ok {
		return // since its removal was pending
	}
	_ = s.transition(id, func(l *live, e *effect) {
		l.setConnection(e, 0)
		l.removed = true
	})
	s.mu.Lock()
	delete(s.byID, id)
	delete(s.byToken, keyOf(st.Token))
	s.mu.Unlock()
	s.wake(id)
	s.revoked(id)
}

// update applies an enrolment of a station. Another secret, or none, begins a new generation
// and ends the connection.
func (s *Service) update(st site.Station) {
	rotated := false
	_ = s.transition(st.ID, func(l *live, e *effect) {
		old := l.enrolled.Load()
		next := &enrolment{station: st, generation: old.generation}
		if rotated = old.station.Secret != st.Secret; rotated {
			next.generation = s.generations.Add(1)
		}
		e.event = old.station.Locks != st.Locks
		l.resize(st.Locks)
		l.enrolled.Store(next)
		s.put(l, old.station.Token)
	})
	s.wake(st.ID)
	if rotated {
		s.revoked(st.ID)
	}
}

// put enters a station, whose token was another one before.
func (s *Service) put(l *live, before site.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[l.id] = l
	delete(s.byToken, keyOf(before))
	s.byToken[keyOf(l.enrolled.Load().station.Token)] = l
}

// record makes the journal record of an administrator's change.
func record(kind site.Kind, by site.Actor, id site.StationID, detail string) site.Record {
	facts := site.ByActor(by)
	facts.Station, facts.Detail = id, detail
	return site.Record{Kind: kind, Facts: facts}
}

// demand returns an error of kind [fault.Invalid] with that sentence unless ok.
func demand(ok bool, sentence string, args ...any) error {
	if ok {
		return nil
	}
	return fault.New(fault.Invalid, fmt.Sprintf(sentence, args...))
}

// cleanName returns a name as it is kept, and what is wrong with it.
func cleanName(name string) (string, error) {
	name, ok := site.CleanStationName(name)
	return name, demand(ok, "A station's name has at most %d characters, none of them a control character", site.MaxStationName)
}

func checkLocks(n int) error {
	return demand(site.ValidLocks(int64(n)), "A station has 1 to %d locks", site.MaxLocks)
}

func checkMode(mode site.HomeAssistantMode) error {
	return demand(mode.Valid(), `homeassistant is "off", "state" or "state+unlock"`)
}
