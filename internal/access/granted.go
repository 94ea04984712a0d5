package access

import (
	"cmp"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// grant is a grant in memory. It stays there after its withdrawal until that is stored.
type grant struct {
	site.Grant
	withdrawn *site.Amendment // its withdrawal, not stored yet; nil while it stands
}

// grant returns the standing grant of an account for a station, and the zone.
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

// grantsOf returns the standing grants of an account, and the zone.
func (d *directory) grantsOf(account site.AccountID) ([]site.Grant, *time.Location) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[account]
	if a == nil {
		return nil, nil
	}
	return a.standing(), d.zone
}

// standing returns the grants that are not withdrawn; the caller holds mu.
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
	slices.SortStableFunc(out, func(a, b site.Grant) int {
		return cmp.Or(
			cmp.Compare(d.accounts[a.Account].Email, d.accounts[b.Account].Email),
			cmp.Compare(a.Station, b.Station))
	})
	return out
}

// putGrant enters a grant in place of the one for the same account and station. A
// withdrawal that is not stored yet came meanwhile, and is of this grant too.
func (d *directory) putGrant(g site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[g.Account]; a != nil {
		a.grants[g.Station] = grant{Grant: g, withdrawn: a.grants[g.Station].withdrawn}
	}
}

// withdraw withdraws a grant and reports whether it was there, standing or withdrawn.
func (d *directory) withdraw(by *site.Amendment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[by.RemoveGrant.Account]
	if a == nil {
		return false
	}
	g, ok := a.grants[by.RemoveGrant.Station]
	if ok {
		g.withdrawn = by
		a.grants[by.RemoveGrant.Station] = g
	}
	return ok
}

// withdrawal returns the withdrawal of a grant that is not stored yet; none if there is
// none.
func (d *directory) withdrawal(p pair) []site.Amendment {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[p.account]
	if a == nil || a.grants[p.station].withdrawn == nil {
		return nil
	}
	return []site.Amendment{*a.grants[p.station].withdrawn}
}

// withdrawn lists the grants whose withdrawal is not stored yet.
func (d *directory) withdrawn() []pair {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []pair
	for id, a := range d.accounts {
		for station, g := range a.grants {
			if g.withdrawn != nil {
				out = append(out, pair{id, station})
			}
		}
	}
	return out
}

// dropGrant drops a grant whose end is stored, unless it was withdrawn once more
// meanwhile.
func (d *directory) dropGrant(end *site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[end.Account]
	if a == nil {
		return
	}
	if newer := a.grants[end.Station].withdrawn; newer == nil || newer.RemoveGrant == end {
		delete(a.grants, end.Station)
	}
}

func (d *directory) dropStation(station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		delete(a.grants, station)
	}
}
