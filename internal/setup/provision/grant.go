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
			wanted.AccountGroup, wanted.Station, wanted.StationGroup = g.Account.Group, target.Station, target.Group
			old, there := present[pair{g.Account, target}]
			if there && old.SameTerms(wanted) {
				continue
			}
			what := w.words(g.Account) + " may use " + w.words(target) + sitefile.TermsText(wanted)
			if !wanted.Until.IsZero() && wanted.Until.Before(time.Now()) {
				what += ", which is over"
			}
			if there {
				what += "; before: " + strings.TrimPrefix(cmp.Or(sitefile.TermsText(old), ", at any time"), ", ")
			}
			amendment, err := w.accounts.DraftGrant(w.by, w.accountOf(g.Account.Email), wanted)
			if err := w.add(site.KindGranted, what, err, amendment); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairOf returns for whom and for what a grant of the gateway is.
func (w *plan) pairOf(g site.Grant) pair {
	return pair{site.Ref{Email: w.emailByID[g.Account], Group: g.AccountGroup}, site.Ref{Station: g.Station, Group: g.StationGroup}}
}

// words words an account, a station or a group for a sentence.
func (w *plan) words(r site.Ref) string {
	switch {
	case r.Station != 0:
		return w.stationWords(r.Station)
	case w.kinds[r.Group] == site.OfStations:
		return "the stations of group " + string(r.Group)
	case r.Group != "":
		return "group " + string(r.Group)
	}
	return string(r.Email)
}

// accountOf returns an account of the gateway, or one that the site adds; none for
// another text.
func (w *plan) accountOf(email site.Email) site.Account {
	if account, there := w.accountByEmail[email]; there {
		return account
	}
	return w.added[email]
}
