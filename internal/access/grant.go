package access

import (
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

// pair names a grant. What is done to one is ordered by its turn, but for a
// withdrawal: that bites in memory before it has the turn. So whoever has the turn
// stores the withdrawals that are older than what it does, and leaves alone those
// that came later.
type pair struct {
	account site.AccountID
	station site.StationID
}

// PutGrant permits an account to use a station, in place of what it had for that station;
// changed reports whether anything changed, and only then is there a record. Times count
// in milliseconds. A withdrawal that comes while the grant is being stored wins, and so
// does a removal of the station. Invalid when the station id is none or the grant would
// end before it begins, NotFound when account or station is not there, Unavailable.
func (s *Service) PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error) {
	grant.From, grant.Until = site.At(grant.From).Time, site.At(grant.Until).Time
	if err := checkGrant(grant); err != nil {
		return false, err
	}
	give, err := s.takeToGrant(ctx, pair{grant.Account, grant.Station})
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
	rec := s.grantRecord(by, account, grant)
	s.dir.beginGrant(pair{grant.Account, grant.Station})
	err = s.administer(ctx, "storing a grant", func(ctx context.Context) error {
		return s.store.PutGrant(ctx, grant, rec)
	})
	over := change(by, site.KindUngranted, account, "the station was removed meanwhile")
	over.Station = grant.Station
	if removed := s.dir.endGrant(grant, err == nil, &over); removed && err == nil {
		_ = s.storeInTurn(ctx, pair{grant.Account, grant.Station}) // Run retries it
		err = fault.New(fault.NotFound, "The station was removed meanwhile")
	}
	return err == nil, err
}

// takeToGrant waits for the turn and stores the withdrawal that was there before.
func (s *Service) takeToGrant(ctx context.Context, p pair) (give func(), err error) {
	older := s.dir.withdrawal(p)
	give, err = takeTurn(ctx, s.grantTurns, p)
	if err != nil || older == nil || s.dir.withdrawal(p) != older {
		return give, err
	}
	if err := s.storeInTurn(ctx, p); err != nil && !fault.Is(err, fault.NotFound) {
		give()
		return nil, err
	}
	return give, nil
}

// RemoveGrant withdraws a grant. It takes effect at once, whatever it returns: NotFound
// when there is none, Unavailable when that could not be stored yet. A retry then
// tries the store again, and so does [Service.Run].
func (s *Service) RemoveGrant(ctx context.Context, by site.Actor, account site.AccountID, station site.StationID) error {
	whose, _ := s.dir.byID(account)
	rec := change(by, site.KindUngranted, whose, "")
	rec.Station = station
	if !s.dir.withdraw(account, station, &rec) {
		return errNoGrant
	}
	return s.storeWithdrawal(ctx, pair{account, station})
}

// storeWithdrawal stores that a grant is withdrawn, then forgets it; nil also when
// someone else has done so meanwhile.
func (s *Service) storeWithdrawal(ctx context.Context, p pair) error {
	give, err := takeTurn(ctx, s.grantTurns, p)
	if err != nil {
		return err
	}
	defer give()
	return s.storeInTurn(ctx, p)
}

// storeInTurn is storeWithdrawal for who has the turn.
func (s *Service) storeInTurn(ctx context.Context, p pair) error {
	rec := s.dir.withdrawal(p)
	if rec == nil {
		return nil
	}
	err := s.administer(ctx, "withdrawing a grant", func(ctx context.Context) error {
		return s.store.RemoveGrant(ctx, p.account, p.station, *rec)
	})
	if err == nil || fault.Is(err, fault.NotFound) {
		s.dir.dropGrant(p)
	}
	return err
}

// retryWithdrawn stores the withdrawals that the store would not take before, up to
// the first that it does not take again.
func (s *Service) retryWithdrawn(ctx context.Context) error {
	for _, p := range s.dir.withdrawn() {
		err := s.storeWithdrawal(ctx, p)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// RemoveStationGrants forgets every grant for a station that has been removed; the
// store has deleted them with it. It waits for nothing: a grant that is being stored,
// before the removal or after it, is withdrawn once it is stored.
func (s *Service) RemoveStationGrants(station site.StationID) { s.dir.dropStation(station) }

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
