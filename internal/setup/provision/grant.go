package provision

import (
	"strings"

	"gatehouse/internal/site"
)

// grantsToRemove leaves out the grants that go with their account or station.
func (w *plan) grantsToRemove() (steps []step) {
	if !w.prune {
		return nil
	}
	for _, g := range w.grants {
		email := w.emailByID[g.Account]
		if w.named.grants[pair{email, g.Station}] || !w.named.accounts[email] || w.goes(g.Station) {
			continue
		}
		steps = append(steps, step{
			change: change(site.KindUngranted, string(email)+" may no longer use "+w.stationWords(g.Station)),
			draft:  func(d *draft) error { return d.add(w.accounts.DraftWithdrawal(d.by, g), nil) },
		})
	}
	return steps
}

func (w *plan) grantsToPut() (steps []step) {
	present := make(map[pair]site.Grant)
	for _, g := range w.grants {
		present[pair{w.emailByID[g.Account], g.Station}] = g
	}
	for _, g := range w.site.Grants {
		for _, id := range g.Stations {
			wanted := site.Grant{Station: id, From: site.At(g.From).Time, Until: site.At(g.Until).Time, Hours: g.Hours}
			if old, there := present[pair{g.Account, id}]; !there || !sameTerms(old, wanted) {
				steps = append(steps, w.putGrant(g.Account, wanted))
			}
		}
	}
	return steps
}

func (w *plan) putGrant(email site.Email, g site.Grant) step {
	what := string(email) + " may use " + w.stationWords(g.Station) + termsWords(g)
	return step{
		change: change(site.KindGranted, what),
		draft:  func(d *draft) error { return d.addAll(w.accounts.DraftGrant(d.by, d.accounts[email], g)) },
	}
}

func sameTerms(a, b site.Grant) bool {
	return a.From.Equal(b.From) && a.Until.Equal(b.Until) && a.Hours.String() == b.Hours.String()
}

// stationWords words a station by the name that it has after the apply.
func (w *plan) stationWords(id site.StationID) string { return wordsOf(id, w.stationNames[id]) }

// termsWords words the bounds of a grant: ", Mon-Fri 08:00-18:00, until …".
func termsWords(g site.Grant) string {
	var b strings.Builder
	if hours := g.Hours.String(); hours != "" {
		b.WriteString(", " + hours)
	}
	if !g.From.IsZero() {
		b.WriteString(", from " + site.At(g.From).String())
	}
	if !g.Until.IsZero() {
		b.WriteString(", until " + site.At(g.Until).String())
	}
	return b.String()
}
