package provision

import (
	"cmp"
	"strings"
	"time"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

func (w *plan) putGrants() error {
	present := make(map[pair]site.Grant)
	for _, g := range w.grants {
		present[w.pairOf(g)] = g
	}
	for _, g := range w.site.Grants {
		for _, target := range g.Stations {
			wanted := g.Terms()
			wanted.Station, wanted.StationGroup = target.Station, target.Group
			if g.Account.IsGroup() {
				wanted.AccountGroup = site.GroupName(g.Account)
			}
			old, there := present[pair{g.Account, target}]
			if there && old.SameTerms(wanted) {
				continue
			}
			what := whoWords(g.Account) + " may use " + w.targetWords(target) + sitefile.TermsText(wanted)
			if !wanted.Until.IsZero() && wanted.Until.Before(time.Now()) {
				what += ", which is over"
			}
			if there {
				what += "; before: " + strings.TrimPrefix(cmp.Or(sitefile.TermsText(old), ", at any time"), ", ")
			}
			amendments, err := w.accounts.DraftGrant(w.by, w.accountOf(site.Email(g.Account)), wanted)
			if err := w.add(site.KindGranted, what, err, amendments...); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairOf returns for whom and for what a grant of the gateway is.
func (w *plan) pairOf(g site.Grant) pair {
	return pair{cmp.Or(sitefile.Who(g.AccountGroup), sitefile.Who(w.emailByID[g.Account])), sitefile.What{Station: g.Station, Group: g.StationGroup}}
}

// whoWords words whom a grant is for.
func whoWords(who sitefile.Who) string {
	if who.IsGroup() {
		return "group " + string(who)
	}
	return string(who)
}

// targetWords words what a grant is for, with the name that a station has after the apply.
func (w *plan) targetWords(target sitefile.What) string {
	if target.Group != "" {
		return "the stations of group " + string(target.Group)
	}
	return w.stationWords(target.Station)
}

// accountOf returns an account of the gateway, or one that the site adds; none for
// another text.
func (w *plan) accountOf(email site.Email) site.Account {
	if account, there := w.accountByEmail[email]; there {
		return account
	}
	return w.added[email]
}
