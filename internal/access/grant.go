package access

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
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

// permits is Permits of an account that is there, at a time. The caller holds mu.
func (d *directory) permits(account site.AccountID, station site.StationID, now time.Time) bool {
	if d.allows(d.accounts[account].grants, station, now) {
		return true
	}
	for _, g := range d.groups {
		if g.accounts[account] && d.allows(g.grants, station, now) {
			return true
		}
	}
	return false
}

// allows reports whether one of some grants is for the station and holds. The caller holds
// mu.
func (d *directory) allows(all grants, station site.StationID, now time.Time) bool {
	if grant, ok := all.stations[station]; ok && grant.Covers(now, d.zone, d.calendar) {
		return true
	}
	for name, grant := range all.groups {
		if g := d.groups[name]; g != nil && g.stations[station] && grant.Covers(now, d.zone, d.calendar) {
			return true
		}
	}
	return false
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
	some := make(map[site.StationID]bool)
	for _, all := range s.dir.grantsOf(account) {
		for station := range all.stations {
			some[station] = true
		}
		for name := range all.groups {
			if g := s.dir.groups[name]; g != nil {
				maps.Copy(some, g.stations)
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(some)), func(station site.StationID) bool {
		return !s.dir.permits(account, station, now)
	})
}

// grantsOf returns the grants of an account and of its groups. The caller holds mu.
func (d *directory) grantsOf(account site.AccountID) (all []grants) {
	if a := d.accounts[account]; a != nil {
		all = append(all, a.grants)
	}
	for _, g := range d.groups {
		if g.accounts[account] {
			all = append(all, g.grants)
		}
	}
	return all
}

// Grants lists all grants: those of accounts by e-mail address, then those of groups by
// name; each by station, then by group of stations.
func (s *Service) Grants() (out []site.Grant) {
	d := s.dir
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, a := range d.accounts {
		out = append(out, a.grants.list()...)
	}
	for _, g := range d.groups {
		out = append(out, g.grants.list()...)
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

// grants are the grants of an account or of a group of accounts.
type grants struct {
	stations map[site.StationID]site.Grant
	groups   map[site.GroupName]site.Grant // for groups of stations
}

func newGrants() grants {
	return grants{make(map[site.StationID]site.Grant), make(map[site.GroupName]site.Grant)}
}

func (all grants) put(g site.Grant) {
	if g.StationGroup != "" {
		all.groups[g.StationGroup] = g
	} else {
		all.stations[g.Station] = g
	}
}

func (all grants) get(k site.GrantKey) (g site.Grant, ok bool) {
	if k.StationGroup != "" {
		g, ok = all.groups[k.StationGroup]
	} else {
		g, ok = all.stations[k.Station]
	}
	return g, ok
}

func (all grants) drop(k site.GrantKey) {
	delete(all.stations, k.Station)
	delete(all.groups, k.StationGroup)
}

func (all grants) list() []site.Grant {
	return slices.AppendSeq(slices.Collect(maps.Values(all.stations)), maps.Values(all.groups))
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
// a record. Times count in milliseconds. A withdrawal that comes while the grant is being
// stored wins. Invalid when the grant does not say for what it is or would end before it
// begins, NotFound when account, station or group is not there, Unavailable.
func (s *Service) PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error) {
	grant.From, grant.Until = site.At(grant.From).Time, site.At(grant.Until).Time
	if err := checkGrant(grant); err != nil {
		return false, err
	}
	before := s.dir.withdrawal(grant.Key())
	err = s.changes.Make(ctx, func() ([]site.Amendment, error) {
		account, err := s.holder(grant)
		if err != nil {
			return nil, err
		}
		if old, had := s.dir.grant(grant.Key()); had && old.SameTerms(grant) {
			return nil, nil
		}
		changed = true
		drafted, err := s.DraftGrant(by, account, grant)
		if len(drafted) == 2 && (len(before) == 0 || before[0].RemoveGrant != drafted[0].RemoveGrant) {
			drafted = drafted[1:] // withdrawn since the call: that withdrawal is of this grant too
		}
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
// tries the store again, and so does [Service.Run].
func (s *Service) RemoveGrant(ctx context.Context, by site.Actor, key site.GrantKey) error {
	withdrawal := s.DraftWithdrawal(by, site.Grant{
		Account: key.Account, AccountGroup: key.AccountGroup, Station: key.Station, StationGroup: key.StationGroup,
	})
	if !s.dir.withdraw(&withdrawal) {
		return errNoGrant
	}
	return s.storeWithdrawal(ctx, key)
}

// storeWithdrawal stores that a grant is withdrawn; nil also when that has been stored
// meanwhile.
func (s *Service) storeWithdrawal(ctx context.Context, p site.GrantKey) error {
	var drafted []site.Amendment
	err := s.changes.Make(ctx, func() ([]site.Amendment, error) {
		drafted = s.dir.withdrawal(p)
		return drafted, nil
	})
	if fault.Is(err, fault.NotFound) { // the store had no such grant
		s.adopt(drafted)
	}
	return err
}

// retryWithdrawn stores the withdrawals that the store has not accepted yet, up to the
// first that it does not accept again.
func (s *Service) retryWithdrawn(ctx context.Context) error {
	s.dir.mu.RLock()
	pairs := slices.Collect(maps.Keys(s.dir.withdrawn))
	s.dir.mu.RUnlock()
	for _, p := range pairs {
		err := s.storeWithdrawal(ctx, p)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// of returns the grants of whom a grant is for. ok is false where that is not there. The
// caller holds mu.
func (d *directory) of(k site.GrantKey) (all grants, ok bool) {
	if k.AccountGroup != "" {
		if g := d.groups[k.AccountGroup]; g != nil {
			return g.grants, true
		}
	} else if a := d.accounts[k.Account]; a != nil {
		return a.grants, true
	}
	return all, false
}

// grant returns the standing grant of a key.
func (d *directory) grant(k site.GrantKey) (grant site.Grant, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all, _ := d.of(k)
	return all.get(k)
}

// putGrant enters a grant in place of the one of the same key. A withdrawal that is not
// stored yet came meanwhile, and is of this grant too.
func (d *directory) putGrant(g site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all, ok := d.of(g.Key()); ok && d.withdrawn[g.Key()] == nil {
		all.put(g)
	}
}

// withdraw withdraws a grant and reports whether it was there, standing or withdrawn.
func (d *directory) withdraw(by *site.Amendment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := by.RemoveGrant.Key()
	all, ok := d.of(key)
	_, standing := all.get(key)
	if !ok || !standing && d.withdrawn[key] == nil {
		return false
	}
	all.drop(key)
	d.withdrawn[key] = by
	return true
}

// withdrawal returns the withdrawal of a grant that is not stored yet; none if there is
// none.
func (d *directory) withdrawal(p site.GrantKey) []site.Amendment {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if by := d.withdrawn[p]; by != nil {
		return []site.Amendment{*by}
	}
	return nil
}

// forgetWithdrawn forgets withdrawals of which the store holds no grant any more. The
// caller holds mu.
func (d *directory) forgetWithdrawn(which func(site.GrantKey) bool) {
	maps.DeleteFunc(d.withdrawn, func(p site.GrantKey, _ *site.Amendment) bool { return which(p) })
}

// dropGrant drops a grant whose end is stored, unless it was withdrawn once more
// meanwhile.
func (d *directory) dropGrant(end *site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := end.Key()
	newer := d.withdrawn[key]
	if newer != nil && newer.RemoveGrant != end {
		return
	}
	delete(d.withdrawn, key)
	if all, ok := d.of(key); ok {
		all.drop(key)
	}
}

// dropTarget drops all grants for a station or a group of stations. The caller holds mu.
func (d *directory) dropTarget(target site.GrantKey) {
	for _, a := range d.accounts {
		a.grants.drop(target)
	}
	for _, g := range d.groups {
		g.grants.drop(target)
	}
	d.forgetWithdrawn(func(k site.GrantKey) bool {
		return k.Station == target.Station && k.StationGroup == target.StationGroup
	})
}

func (d *directory) dropStation(station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropTarget(site.GrantKey{Station: station})
	for _, g := range d.groups {
		delete(g.stations, station)
	}
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
	case !g.From.IsZero() && !g.Until.IsZero() && !g.From.Before(g.Until):
		return fault.New(fault.Invalid, "The grant would end before it begins")
	}
	return nil
}

// limits words the limits of a grant for the journal.
func limits(g site.Grant) string {
	var parts []string
	if !g.From.IsZero() {
		parts = append(parts, "from "+site.At(g.From).String())
	}
	if !g.Until.IsZero() {
		parts = append(parts, "until "+site.At(g.Until).String())
	}
	if hours := g.Hours.String(); hours != "" {
		parts = append(parts, "hours "+hours)
	}
	if hours := g.Holidays.String(); hours != "" {
		parts = append(parts, "on holidays "+hours)
	}
	if len(parts) == 0 {
		return "without limits"
	}
	return strings.Join(parts, ", ")
}
