package access

import (
	"cmp"
	"context"
	"maps"
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

// permits is Permits of an account that is there, at a time. The caller holds mu.
func (d *directory) permits(account site.AccountID, station site.StationID, now time.Time) bool {
	if d.allows(who{account: account}, station, now) {
		return true
	}
	for name, g := range d.groups {
		if g.members[site.Member{Group: name, Account: account}] && d.allows(who{group: name}, station, now) {
			return true
		}
	}
	return false
}

// allows reports whether a grant for by, an account or a group, is for the station and
// holds. The caller holds mu.
func (d *directory) allows(by who, station site.StationID, now time.Time) bool {
	all := d.grants[by]
	if grant, ok := all[what{station: station}]; ok && grant.Covers(now, d.zone, d.calendar) {
		return true
	}
	if len(all) == 0 {
		return false
	}
	for name, g := range d.groups {
		grant, ok := all[what{group: name}]
		if ok && g.members[site.Member{Group: name, Station: station}] && grant.Covers(now, d.zone, d.calendar) {
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
	collect := func(by who) {
		for target := range s.dir.grants[by] {
			some[target.station] = true
			for m := range s.dir.groups[target.group].members {
				some[m.Station] = true
			}
		}
	}
	collect(who{account: account})
	for name, g := range s.dir.groups {
		if g.members[site.Member{Group: name, Account: account}] {
			collect(who{group: name})
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(some)), func(station site.StationID) bool {
		return station == 0 || !s.dir.permits(account, station, now)
	})
}

// Grants lists all grants: those of accounts by e-mail address, then those of groups by
// name; each by station, then by group of stations.
func (s *Service) Grants() (out []site.Grant) {
	d := s.dir
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, all := range d.grants {
		out = slices.AppendSeq(out, maps.Values(all))
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

// who and what are the two halves of a [site.GrantKey]: for whom a grant is, and for what.
type who struct {
	account site.AccountID
	group   site.GroupName
}

type what struct {
	station site.StationID
	group   site.GroupName
}

func halves(k site.GrantKey) (who, what) {
	return who{k.Account, k.AccountGroup}, what{k.Station, k.StationGroup}
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

// grant returns the standing grant of a key.
func (d *directory) grant(k site.GrantKey) (grant site.Grant, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	by, target := halves(k)
	grant, ok = d.grants[by][target]
	return grant, ok
}

// putGrant enters a grant in place of the one of the same key. A withdrawal that is not
// stored yet came meanwhile, and is of this grant too.
func (d *directory) putGrant(g site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	by, target := halves(g.Key())
	if _, there := d.groups[by.group]; !there && d.accounts[by.account] == nil || d.withdrawn[g.Key()] != nil {
		return
	}
	if d.grants[by] == nil {
		d.grants[by] = make(map[what]site.Grant)
	}
	d.grants[by][target] = g
}

// withdraw withdraws a grant and reports whether it was there, standing or withdrawn.
func (d *directory) withdraw(by *site.Amendment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := by.RemoveGrant.Key()
	holder, target := halves(key)
	if _, standing := d.grants[holder][target]; !standing && d.withdrawn[key] == nil {
		return false
	}
	delete(d.grants[holder], target)
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
func (d *directory) forgetWithdrawn(which func(who, what) bool) {
	maps.DeleteFunc(d.withdrawn, func(k site.GrantKey, _ *site.Amendment) bool { return which(halves(k)) })
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
	by, target := halves(key)
	delete(d.grants[by], target)
}

// dropTarget drops all grants for a station or a group of stations. The caller holds mu.
func (d *directory) dropTarget(target what) {
	for _, all := range d.grants {
		delete(all, target)
	}
	d.forgetWithdrawn(func(_ who, t what) bool { return t == target })
}

// dropHolder drops all grants of an account or a group of accounts. The caller holds mu.
func (d *directory) dropHolder(holder who) {
	delete(d.grants, holder)
	d.forgetWithdrawn(func(w who, _ what) bool { return w == holder })
}

func (d *directory) dropStation(station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropTarget(what{station: station})
	for name, g := range d.groups {
		delete(g.members, site.Member{Group: name, Station: station})
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
	return cmp.Or(g.Text(func(t time.Time) string { return site.At(t).String() }), "without limits")
}
