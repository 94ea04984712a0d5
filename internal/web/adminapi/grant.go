package adminapi

import "gatehouse/internal/site"

func (a *API) grants(*request) (any, error) {
	grants := []Grant{}
	for _, g := range a.Access.Grants() {
		if account, ok := a.Access.AccountByID(g.Account); ok { // it may have been removed meanwhile
			grants = append(grants, grantOf(account.Email, g))
		}
	}
	return map[string][]Grant{"grants": grants}, nil
}

func grantOf(email site.Email, g site.Grant) Grant {
	terms := GrantTerms{From: site.At(g.From), Until: site.At(g.Until), Hours: g.Hours}
	return Grant{Email: email, StationID: g.Station, GrantTerms: terms}
}

func (a *API) grant(r *request, terms GrantTerms) (any, error) {
	g := site.Grant{Account: r.account.ID, Station: r.station.ID, From: terms.From.Time, Until: terms.Until.Time, Hours: terms.Hours}
	changed, err := a.Access.PutGrant(r.Context(), r.Actor, g)
	return Granted{Grant: grantOf(r.account.Email, g), Changed: changed}, err
}

func (a *API) ungrant(r *request) (any, error) {
	return nil, a.Access.RemoveGrant(r.Context(), r.Actor, r.account.ID, r.station.ID)
}
