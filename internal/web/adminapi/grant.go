package adminapi

import (
	"gatehouse/internal/site"
)

func (a *API) grants(*request) (any, error) {
	list := GrantList{Grants: []Grant{}}
	for _, g := range a.Access.Grants() {
		if account, ok := a.Access.AccountByID(g.Account); ok { // it may have been removed meanwhile
			list.Grants = append(list.Grants, grantOf(account.Email, g))
		}
	}
	return list, nil
}

func grantOf(email site.Email, g site.Grant) Grant {
	terms := GrantTerms{From: site.At(g.From), Until: site.At(g.Until), Hours: g.Hours}
	return Grant{Email: email, StationID: g.Station, GrantTerms: terms}
}

// pair returns the account and the station of the path, which must exist.
func (a *API) pair(r *request) (site.Account, site.StationID, error) {
	id, err := r.station()
	if err != nil {
		return site.Account{}, 0, err
	}
	account, err := a.Access.AccountByEmail(r.email())
	if err != nil {
		return site.Account{}, 0, err
	}
	if _, ok := a.Stations.Station(id); !ok {
		return site.Account{}, 0, errNoStation()
	}
	return account, id, nil
}

func (a *API) grant(r *request, terms GrantTerms) (any, error) {
	account, id, err := a.pair(r)
	if err != nil {
		return nil, err
	}
	g := site.Grant{Account: account.ID, Station: id, From: terms.From.Time, Until: terms.Until.Time, Hours: terms.Hours}
	changed, err := a.Access.PutGrant(r.Context(), r.Actor, g)
	if err != nil {
		return nil, err
	}
	return Granted{Grant: grantOf(account.Email, g), Changed: changed}, nil
}

func (a *API) ungrant(r *request) (any, error) {
	account, id, err := a.pair(r)
	if err != nil {
		return nil, err
	}
	return nil, a.Access.RemoveGrant(r.Context(), r.Actor, account.ID, id)
}
