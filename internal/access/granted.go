package access

import (
	"cmp"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// grant is a grant in memory. It stays there after its withdrawal until the store
// has taken note of it.
type grant struct {
	site.Grant
	withdrawn *site.Record // how it was withdrawn; nil while it stands
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
// withdrawal that waits for the store is kept: it is of this grant too.
func (d *directory) putGrant(g site.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[g.Account]; a != nil {
		a.grants[g.Station] = grant{Grant: g, withdrawn: a.grants[g.Station].withdrawn}
	}
}

// beginGrant notes that a grant is being stored.
func (d *directory) beginGrant(p pair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.storing[p] = false
}

// endGrant enters a grant if it was stored. If its station was removed since beginGrant,
// it enters the grant as withdrawn by over, and reports true.
func (d *directory) endGrant(g site.Grant, stored bool, over *site.Record) (removed bool) {
	p := pair{g.Account, g.Station}
	d.mu.Lock()
	defer d.mu.Unlock()
	removed = d.storing[p]
	delete(d.storing, p)
	if a := d.accounts[g.Account]; a != nil && stored {
		entered := grant{Grant: g, withdrawn: a.grants[g.Station].withdrawn}
		if removed {
			entered.withdrawn = over
		}
		a.grants[g.Station] = entered
	}
	return removed
}

// withdraw withdraws a grant and reports whether it was there, standing or withdrawn.
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

// withdrawal returns the withdrawal that waits for the store; nil if none does.
func (d *directory) withdrawal(p pair) *site.Record {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a := d.accounts[p.account]; a != nil {
		return a.grants[p.station].withdrawn
	}
	return nil
}

// withdrawn lists the grants whose withdrawal the store has not taken.
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

func (d *directory) dropGrant(p pair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[p.account]; a != nil {
		delete(a.grants, p.station)
	}
}

func (d *directory) dropStation(station site.StationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		delete(a.grants, station)
	}
	for p := range d.storing {
		if p.station == station {
			d.storing[p] = true
		}
	}
}
