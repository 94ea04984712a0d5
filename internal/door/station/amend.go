package station

import (
	"cmp"
	"strconv"
	"strings"

	"gatehouse/internal/site"
)

// Draft drafts a new station. [fault.Invalid] when the request cannot be right. The
// store checks whether id and token are free.
func (s *Service) Draft(by site.Actor, r EnrolRequest) (Enrolled, site.Amendment, error) {
	r, err := r.complete()
	if err != nil {
		return Enrolled{}, site.Amendment{}, err
	}
	st := site.Station{
		ID: r.ID, Name: r.Name, Locks: r.Locks, Token: r.Token,
		Secret: hashSecret(r.Secret), Enrolled: site.At(s.cfg.Clock.Now()).Time, HomeAssistant: r.HomeAssistant,
	}
	return Enrolled{Station: st, Token: r.Token, Secret: r.Secret},
		site.Amendment{AddStation: &st, Record: record(site.KindStationAdded, by, st.ID, locksText(st.Locks))}, nil
}

func locksText(n int) string {
	if n == 1 {
		return "1 lock"
	}
	return strconv.Itoa(n) + " locks"
}

// DraftUpdate drafts a change of st, and makes it in st. [fault.Invalid].
func (s *Service) DraftUpdate(by site.Actor, st *site.Station, p Patch) (site.Amendment, error) {
	name, checkName := cleanName(*cmp.Or(p.Name, &st.Name))
	locks, mode := *cmp.Or(p.Locks, &st.Locks), *cmp.Or(p.HomeAssistant, &st.HomeAssistant)
	if err := cmp.Or(checkName, checkLocks(locks), checkMode(mode)); err != nil {
		return site.Amendment{}, err
	}
	var changed []string
	if st.Name != name {
		changed = append(changed, "name "+strconv.Quote(name))
	}
	if st.Locks != locks {
		changed = append(changed, locksText(locks))
	}
	if st.HomeAssistant != mode {
		changed = append(changed, detailMode+string(mode))
	}
	st.Name, st.Locks, st.HomeAssistant = name, locks, mode
	return amendment(site.KindStationChanged, by, *st, strings.Join(changed, ", ")), nil
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

// adopt applies stored amendments, except for what those that are pending revoke. Secrets and
// modes that stored ones revoke were pending before.
func (s *Service) adopt(amendments []site.Amendment) {
	for _, a := range amendments {
		switch {
		case a.AddStation != nil:
			s.admit(*a.AddStation)
		case a.UpdateStation != nil:
			st := *a.UpdateStation
			for _, p := range s.pending {
				st = without(st, p)
			}
			s.update(st)
		case a.RemoveStation != 0:
			s.forget(a.RemoveStation)
		}
	}
}

// foresee revokes what pending amendments revoke.
func (s *Service) foresee(pending []site.Amendment) {
	s.pending = pending
	for _, a := range pending {
		s.forget(a.RemoveStation)
		id := a.DropSecret
		if a.LimitStation != nil {
			id = a.LimitStation.Station
		}
		if st, ok := s.Station(id); ok && st != without(st, a) {
			s.update(without(st, a))
		}
	}
}

// without returns st without what a revokes of it.
func without(st site.Station, a site.Amendment) site.Station {
	if a.DropSecret == st.ID {
		st.Secret.Sum = [32]byte{} // which no secret has
	}
	if l := a.LimitStation; l != nil && l.Station == st.ID {
		st = l.Of(st)
	}
	return st
}

// admit adds a stored station to those in memory.
func (s *Service) admit(st site.Station) {
	s.put(newLive(st, s.generations.Add(1)), "")
	_ = s.transition(st.ID, func(_ *live, e *effect) { e.event = true })
}
