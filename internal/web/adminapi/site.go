package adminapi

import "gatehouse/internal/setup/sitefile"

// SiteOf gives a parsed site as the JSON of an [ApplyRequest].
func SiteOf(s sitefile.Site) Site {
	w := Site{TimeZone: s.TimeZone}
	for _, a := range s.Accounts {
		w.Accounts = append(w.Accounts, SiteAccount{Email: string(a.Email), Password: a.Password.Reveal(), Admin: a.Admin})
	}
	for _, st := range s.Stations {
		w.Stations = append(w.Stations, siteStationOf(st))
	}
	for _, g := range s.Grants {
		w.Grants = append(w.Grants, siteGrantOf(g))
	}
	return w
}

func siteStationOf(s sitefile.Station) SiteStation {
	w := SiteStation{ID: s.ID, Name: s.Name, Secret: s.Secret.Reveal(), Token: s.Token.Reveal()}
	if s.Locks != 0 {
		w.Locks = &s.Locks
	}
	return w
}

func siteGrantOf(g sitefile.Grant) SiteGrant {
	w := SiteGrant{Account: string(g.Account), Stations: g.Stations, Hours: g.Hours.String()}
	if !g.From.IsZero() {
		w.From = &g.From
	}
	if !g.Until.IsZero() {
		w.Until = &g.Until
	}
	return w
}
