package access

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Permits reports whether account, which may be the id of an integration token, may unlock
// station now: by its scope, by a grant of its own, or by one of a group that it is in.
// Cheap and without allocation; asked for every unlock.
func (s *Service) Permits(account site.AccountID, station site.StationID) bool {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	if s.dir.accounts[account] == nil {
		return s.apps.Scope(account, now).MayUnlock(station)
	}
	return s.dir.permits(account, station, now)
}

// permits is Permits of an account that is there, at a time. What is stored and what is to
// be must both permit it: a change revokes before it is stored, and permits after. The
// caller holds mu.
func (d *directory) permits(account site.AccountID, station site.StationID, now time.Time) bool {
	return d.wanted.permit(account, station, now, d.zone) &&
		(d.wanted == d.stored || d.stored.permit(account, station, now, d.zone))
}

// MayRead reports whether account may see the state of station now: what it may unlock,
// and for an integration token what its scope says. Cheap.
func (s *Service) MayRead(account site.AccountID, station site.StationID) bool {
	return s.Permits(account, station) || s.apps.Scope(account, s.clock.Now()).MayRead(station)
}

// MayReadAll reports whether account may see the state of every station, also of those that
// are added later: never one with grants. Cheap.
func (s *Service) MayReadAll(account site.AccountID) bool {
	scope := s.apps.Scope(account, s.clock.Now())
	return scope.Read || scope.UnlockAll
}

// Granted lists the stations that account may use now, in order: of an integration token
// those that its scope names.
func (s *Service) Granted(account site.AccountID) []site.StationID {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	if s.dir.accounts[account] == nil {
		return slices.Clone(s.apps.Scope(account, now).Unlock)
	}
	return slices.DeleteFunc(s.dir.wanted.stations(account), func(station site.StationID) bool {
		return !s.dir.permits(account, station, now)
	})
}

// Grants lists all grants: those of accounts by e-mail address, then those of groups by
// name; each by station, then by group of stations.
func (s *Service) Grants() (out []site.Grant) {
	d := s.dir
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, g := range d.wanted.grants {
		if g.Account == "" || d.accounts[g.Account] != nil {
			out = append(out, g)
		}
	}
	email := func(g site.Grant) site.Email {
		if a := d.accounts[g.Account]; a != nil {
			return a.Email
		}
		return ""
	}
	slices.SortStableFunc(out, func(a, b site.Grant) int {
		return cmp.Or(
			cmp.Compare(a.AccountGroup, b.AccountGroup), cmp.Compare(email(a), email(b)),
			cmp.Compare(a.StationGroup, b.StationGroup), cmp.Compare(a.Station, b.Station))
	})
	return out
}

// SetZone changes the time zone in which the hours of grants are meant; nil is
// time.Local.
func (s *Service) SetZone(zone *time.Location) {
	if zone == nil {
		zone = time.Local
	}
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	s.dir.zone = zone
}

// Zone returns the time zone in which hours and holidays are meant.
func (s *Service) Zone() *time.Location {
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	return s.dir.zone
}

// PutGrant permits an account or a group to use a station or a group, and replaces the
// grant of the same key; changed reports whether anything changed, and only then is there
// a record. The grant that it replaces is narrowed to the new terms at once, whatever PutGrant
// returns; what these permit beyond it is stored first. Invalid when the grant does not say for
// what it is or would end before it begins, NotFound when account, station or group is not
// there, Unavailable.
func (s *Service) PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error) {
	if err := checkGrant(grant); err != nil {
		return false, err
	}
	err = s.changes.Revoke(ctx, by, func() (drafted []site.Amendment, err error) {
		account, err := s.holder(grant)
		if err == nil {
			drafted = s.DraftNarrowing(by, account, grant)
		}
		changed = len(drafted) > 0
		return drafted, err
	})
	if err != nil {
		return false, err
	}
	err = s.changes.Make(ctx, by, func() (drafted []site.Amendment, err error) {
		account, err := s.holder(grant)
		if err == nil {
			drafted, err = s.DraftGrant(by, account, grant)
		}
		changed = changed || len(drafted) > 0
		return drafted, err
	})
	return changed && err == nil, err
}

// holder returns the account that a grant is for, or none for a group. NotFound where one
// of them or the group of stations is not there.
func (s *Service) holder(g site.Grant) (account site.Account, err error) {
	if g.AccountGroup != "" {
		err = s.hasGroup(g.AccountGroup, site.OfAccounts)
	} else if account, _ = s.dir.byID(g.Account); account.ID == "" {
		err = errNoAccount
	}
	if err == nil && g.StationGroup != "" {
		err = s.hasGroup(g.StationGroup, site.OfStations)
	}
	return account, err
}

// RemoveGrant withdraws a grant. It takes effect at once, whatever it returns: NotFound
// when there is none, Unavailable when that could not be stored yet. A retry then
// tries the store again, and so do every later change and [Service.Run].
func (s *Service) RemoveGrant(ctx context.Context, by site.Actor, key site.GrantKey) error {
	return s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
		return removal(s.dir, func(r *rules) map[site.GrantKey]site.Grant { return r.grants }, key, errNoGrant, s.DraftWithdrawal(by, key))
	})
}

// removal returns the amendment that removes a key from a part of the rules: none where
// that is pending already, notFound where there is no such key.
func removal[K comparable, V any](d *directory, part func(*rules) map[K]V, key K, notFound error, remove site.Amendment) ([]site.Amendment, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if _, wanted := part(d.wanted)[key]; wanted {
		return []site.Amendment{remove}, nil
	}
	if _, stored := part(d.stored)[key]; stored {
		return nil, nil
	}
	return nil, notFound
}

// errNoGrant means that an administrator named a grant that is not there.
var errNoGrant = fault.New(fault.NotFound, "There is no such grant")

// checkGrant refuses a grant that can never hold.
func checkGrant(g site.Grant) error {
	switch {
	case g.Account != "" && g.AccountGroup != "":
		return fault.New(fault.Invalid, "The grant is for an account or for a group, not for both")
	case g.StationGroup == "" && !g.Station.Valid(), g.StationGroup != "" && g.Station != 0:
		return fault.New(fault.Invalid, "The grant names no station")
	case !g.From.IsZero() && !g.Until.IsZero() && !g.From.Before(g.Until.Time):
		return fault.New(fault.Invalid, "The grant would end before it begins")
	}
	return nil
}

// limits words the terms of a grant for the journal.
func limits(t site.Terms) string {
	return cmp.Or(t.Text(func(t time.Time) string { return site.At(t).String() }), "without limits")
}
