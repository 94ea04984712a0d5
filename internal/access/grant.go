package access

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Permits reports whether account may use station now. Cheap; asked for every
// unlock.
func (s *Service) Permits(account site.AccountID, station site.StationID) bool {
	grant, zone, ok := s.dir.grant(account, station)
	return ok && grant.Covers(s.clock.Now(), zone)
}

// Granted lists the stations that account may use now, in order.
func (s *Service) Granted(account site.AccountID) []site.StationID {
	grants, zone := s.dir.grantsOf(account)
	now := s.clock.Now()
	var stations []site.StationID
	for _, g := range grants {
		if g.Covers(now, zone) {
			stations = append(stations, g.Station)
		}
	}
	slices.Sort(stations)
	return stations
}

// Grants lists all grants, by the e-mail address of the account, then by station.
func (s *Service) Grants() []site.Grant { return s.dir.allGrants() }

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

// pair names a grant.
type pair struct {
	account site.AccountID
	station site.StationID
}

// PutGrant gives an account leave to use a station, in place of what it had for
// that station; changed says whether anything did, and only then is there a record.
// Times count in milliseconds. Invalid when the station id is none or the grant
// would end before it begins, NotFound when account or station is not there,
// Unavailable.
func (s *Service) PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error) {
	grant.From, grant.Until = site.At(grant.From).Time, site.At(grant.Until).Time
	if err := checkGrant(grant); err != nil {
		return false, err
	}
	give, err := takeTurn(ctx, s.grantTurns, pair{grant.Account, grant.Station})
	if err != nil {
		return false, err
	}
	defer give()
	account, ok := s.dir.byID(grant.Account)
	if !ok {
		return false, errNoAccount
	}
	old, _, had := s.dir.grant(grant.Account, grant.Station)
	if had && sameGrant(old, grant) {
		return false, nil
	}
	rec := change(by, site.KindGranted, account, limits(grant))
	rec.Station = grant.Station
	if had {
		rec.Detail += "; before: " + limits(old)
	}
	err = s.administer(ctx, "storing a grant", func(ctx context.Context) error {
		return s.store.PutGrant(ctx, grant, rec)
	})
	if err != nil {
		return false, err
	}
	s.dir.putGrant(grant)
	return true, nil
}

// RemoveGrant withdraws a grant. It bites at once, whatever comes back: NotFound
// when there is none, Unavailable when that could not be stored yet. A retry then
// tries the store again, and so does [Service.Run].
func (s *Service) RemoveGrant(ctx context.Context, by site.Actor, account site.AccountID, station site.StationID) error {
	whose, _ := s.dir.byID(account)
	rec := change(by, site.KindUngranted, whose, "")
	rec.Station = station
	if !s.dir.withdraw(account, station, &rec) {
		return errNoGrant
	}
	return s.storeWithdrawal(ctx, account, station, &rec)
}

// storeWithdrawal stores that a grant is withdrawn, then forgets it.
func (s *Service) storeWithdrawal(ctx context.Context, account site.AccountID, station site.StationID, rec *site.Record) error {
	give, err := takeTurn(ctx, s.grantTurns, pair{account, station})
	if err != nil {
		return err
	}
	defer give()
	if !s.dir.stillWithdrawn(account, station) {
		return nil // someone else has stored it, or granted anew, meanwhile
	}
	err = s.administer(ctx, "withdrawing a grant", func(ctx context.Context) error {
		return s.store.RemoveGrant(ctx, account, station, *rec)
	})
	if err == nil || fault.Is(err, fault.NotFound) {
		s.dir.dropGrant(account, station)
	}
	return err
}

// retryWithdrawn stores the withdrawals that the store would not take before, up to
// the first that it does not take again.
func (s *Service) retryWithdrawn(ctx context.Context) error {
	for _, g := range s.dir.withdrawn() {
		err := s.storeWithdrawal(ctx, g.Account, g.Station, g.withdrawn)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// RemoveStationGrants forgets every grant for a station that has been removed; the
// store has deleted them with it. It waits for the grants that are being stored:
// one of them may have come before the removal. The store refuses those that begin
// later.
func (s *Service) RemoveStationGrants(station site.StationID) {
	s.grantTurns.Wait()
	s.dir.dropStation(station)
}

// errNoGrant says that an administrator named a grant that is not there.
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

// grant is a grant in memory. It stays there after its withdrawal until the store
// has taken note of it.
type grant struct {
	site.Grant
	withdrawn *site.Record // how it was withdrawn; nil while it stands
}

// grant gives the standing grant of an account for a station, and the zone.
func (d *directory) grant(account site.AccountID, station site.StationID) (site.Grant, *time.Location, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[account]
	if a == nil {
		return site.Grant{}, nil, false
	}
	g, ok := a.grants[station]
	return g.Grant, d.zone, ok && g.withdrawn == nil
}

// grantsOf gives the standing grants of an account, and the zone.
func (d *directory) grantsOf(account site.AccountID) ([]site.Grant, *time.Location) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[account]
	if a == nil {
		return nil, nil
	}
	return a.standing(), d.zone
}

// standing gives the grants that are not withdrawn; the caller holds mu.
func (a *account) standing() []site.Grant {
	out := make([]site.Grant, 0, len(a.grants))
	for _, g := range a.grants {
		if g.withdrawn == nil {
			out = append(out, g.Grant)
		}
	}
	return out
}

// allGrants lists the standing grants by e-mail address and station.
func (d *directory) allGrants() []site.Grant {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []site.Grant
	for _, a := range d.accounts {
		out = append(out, a.standing()...)
	}
	slices.SortFunc(out, func(a, b site.Grant) int {
		return cmp.Or(
			cmp.Compare(d.accounts[a.Account].Email, d.accounts[b.Account].Email),
			cmp.Compare(a.Station, b.Station))
	})
	return out
}

// putGrant enters a grant in place of the one for the same account and station.
func (d *directory) putGrant(g site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[g.Account]; a != nil {
		a.grants[g.Station] = grant{Grant: g}
	}
}

// withdraw makes a grant hold no longer and reports whether it was there, standing
// or withdrawn.
func (d *directory) withdraw(account site.AccountID, station site.StationID, rec *site.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[account]
	if a == nil {
		return false
	}
	g, ok := a.grants[station]
	if ok {
		g.withdrawn = rec
		a.grants[station] = g
	}
	return ok
}

// stillWithdrawn reports whether a withdrawal waits for the store.
func (d *directory) stillWithdrawn(account site.AccountID, station site.StationID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[account]
	return a != nil && a.grants[station].withdrawn != nil
}

// withdrawn lists the grants whose withdrawal the store has not taken.
func (d *directory) withdrawn() []grant {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []grant
	for _, a := range d.accounts {
		for _, g := range a.grants {
			if g.withdrawn != nil {
				out = append(out, g)
			}
		}
	}
	return out
}

func (d *directory) dropGrant(account site.AccountID, station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[account]; a != nil {
		delete(a.grants, station)
	}
}

func (d *directory) dropStation(station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		delete(a.grants, station)
	}
}
