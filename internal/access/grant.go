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

// pair identifies a grant.
type pair struct {
	account site.AccountID
	station site.StationID
}

// Permits reports whether account, which may be the id of an integration token, may unlock
// station now. Cheap; asked for every unlock.
func (s *Service) Permits(account site.AccountID, station site.StationID) bool {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	a := s.dir.accounts[account]
	if a == nil {
		return s.apps.Scope(account, now).MayUnlock(station)
	}
	grant, ok := a.grants[station]
	return ok && grant.Covers(now, s.dir.zone)
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
func (s *Service) Granted(account site.AccountID) (stations []site.StationID) {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	a := s.dir.accounts[account]
	if a == nil {
		return slices.Clone(s.apps.Scope(account, now).Unlock)
	}
	for station, grant := range a.grants {
		if grant.Covers(now, s.dir.zone) {
			stations = append(stations, station)
		}
	}
	slices.Sort(stations)
	return stations
}

// Grants lists all grants, by the e-mail address of the account, then by station.
func (s *Service) Grants() (out []site.Grant) {
	d := s.dir
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, a := range d.accounts {
		out = slices.AppendSeq(out, maps.Values(a.grants))
	}
	slices.SortStableFunc(out, func(a, b site.Grant) int {
		return cmp.Or(
			cmp.Compare(d.accounts[a.Account].Email, d.accounts[b.Account].Email),
			cmp.Compare(a.Station, b.Station))
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

// PutGrant permits an account to use a station, and replaces what it had for that
// station; changed reports whether anything changed, and only then is there a record.
// Times count in milliseconds. A withdrawal that comes while the grant is being stored
// wins. Invalid when the station id is none or the grant would end before it begins,
// NotFound when account or station is not there, Unavailable.
func (s *Service) PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error) {
	grant.From, grant.Until = site.At(grant.From).Time, site.At(grant.Until).Time
	if err := checkGrant(grant); err != nil {
		return false, err
	}
	before := s.dir.withdrawal(pair{grant.Account, grant.Station})
	err = s.changes.Make(ctx, func() ([]site.Amendment, error) {
		account, ok := s.dir.byID(grant.Account)
		if !ok {
			return nil, errNoAccount
		}
		if old, had := s.dir.grant(grant.Account, grant.Station); had && sameGrant(old, grant) {
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

// RemoveGrant withdraws a grant. It takes effect at once, whatever it returns: NotFound
// when there is none, Unavailable when that could not be stored yet. A retry then
// tries the store again, and so does [Service.Run].
func (s *Service) RemoveGrant(ctx context.Context, by site.Actor, account site.AccountID, station site.StationID) error {
	withdrawal := s.DraftWithdrawal(by, site.Grant{Account: account, Station: station})
	if !s.dir.withdraw(&withdrawal) {
		return errNoGrant
	}
	return s.storeWithdrawal(ctx, pair{account, station})
}

// storeWithdrawal stores that a grant is withdrawn; nil also when that has been stored
// meanwhile.
func (s *Service) storeWithdrawal(ctx context.Context, p pair) error {
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

// grant returns the standing grant of an account for a station.
func (d *directory) grant(account site.AccountID, station site.StationID) (grant site.Grant, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a := d.accounts[account]; a != nil {
		grant, ok = a.grants[station]
	}
	return grant, ok
}

// putGrant enters a grant in place of the one for the same account and station. A
// withdrawal that is not stored yet came meanwhile, and is of this grant too.
func (d *directory) putGrant(g site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[g.Account]; a != nil && d.withdrawn[pair{g.Account, g.Station}] == nil {
		a.grants[g.Station] = g
	}
}

// withdraw withdraws a grant and reports whether it was there, standing or withdrawn.
func (d *directory) withdraw(by *site.Amendment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := pair{by.RemoveGrant.Account, by.RemoveGrant.Station}
	a := d.accounts[p.account]
	if a == nil {
		return false
	}
	_, standing := a.grants[p.station]
	if !standing && d.withdrawn[p] == nil {
		return false
	}
	delete(a.grants, p.station)
	d.withdrawn[p] = by
	return true
}

// withdrawal returns the withdrawal of a grant that is not stored yet; none if there is
// none.
func (d *directory) withdrawal(p pair) []site.Amendment {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if by := d.withdrawn[p]; by != nil {
		return []site.Amendment{*by}
	}
	return nil
}

// forgetWithdrawn forgets withdrawals of which the store holds no grant any more. The
// caller holds mu.
func (d *directory) forgetWithdrawn(which func(pair) bool) {
	maps.DeleteFunc(d.withdrawn, func(p pair, _ *site.Amendment) bool { return which(p) })
}

// dropGrant drops a grant whose end is stored, unless it was withdrawn once more
// meanwhile.
func (d *directory) dropGrant(end *site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := pair{end.Account, end.Station}
	newer := d.withdrawn[p]
	if newer != nil && newer.RemoveGrant != end {
		return
	}
	delete(d.withdrawn, p)
	if a := d.accounts[end.Account]; a != nil {
		delete(a.grants, end.Station)
	}
}

func (d *directory) dropStation(station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		delete(a.grants, station)
	}
	d.forgetWithdrawn(func(p pair) bool { return p.station == station })
}

// errNoGrant means that an administrator named a grant that is not there.
var errNoGrant = fault.New(fault.NotFound, "There is no such grant")

// checkGrant refuses a grant that can never hold.
func checkGrant(g site.Grant) error {
	switch {
	case !g.Station.Valid():
		return fault.New(fault.Invalid, "The grant names no station")
	case !g.From.IsZero() && !g.Until.IsZero() && !g.From.Before(g.Until):
		return fault.New(fault.Invalid, "The grant would end before it begins")
	}
	return nil
}

func sameGrant(a, b site.Grant) bool {
	return a.From.Equal(b.From) && a.Until.Equal(b.Until) && a.Hours.String() == b.Hours.String()
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
	if len(parts) == 0 {
		return "without limits"
	}
	return strings.Join(parts, ", ")
}
