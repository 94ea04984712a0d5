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
		present[pair{w.emailByID[g.Account], g.Station}] = g
	}
	for _, g := range w.site.Grants {
		for _, id := range g.Stations {
			wanted := g.Terms()
			wanted.Station = id
			old, there := present[pair{g.Account, id}]
			if there && sameTerms(old, wanted) {
				continue
			}
			what := string(g.Account) + " may use " + w.stationWords(id) + sitefile.TermsText(wanted)
			if !wanted.Until.IsZero() && wanted.Until.Before(time.Now()) {
				what += ", which is over"
			}
			if there {
				what += "; before: " + strings.TrimPrefix(cmp.Or(sitefile.TermsText(old), ", at any time"), ", ")
			}
			amendments, err := w.accounts.DraftGrant(w.by, w.accountOf(g.Account), wanted)
			if err := w.add(site.KindGranted, what, err, amendments...); err != nil {
				return err
			}
		}
	}
	return nil
}

// accountOf returns an account of the gateway, or one that the site adds.
func (w *plan) accountOf(email site.Email) site.Account {
	if account, there := w.accountByEmail[email]; there {
		return account
	}
	return w.added[email]
}

func sameTerms(a, b site.Grant) bool {
	return a.From.Equal(b.From) && a.Until.Equal(b.Until) && a.Hours.String() == b.Hours.String()
}
