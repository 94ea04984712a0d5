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

// pair identifies a grant.
type pair struct {
	account site.AccountID
	station site.StationID
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
		if old, _, had := s.dir.grant(grant.Account, grant.Station); had && sameGrant(old, grant) {
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
	for _, p := range s.dir.withdrawn() {
		err := s.storeWithdrawal(ctx, p)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
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
