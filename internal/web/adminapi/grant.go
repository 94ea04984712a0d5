package adminapi

import (
	"errors"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func (a *API) grants(*request) (any, error) {
	grants := []Grant{}
	for _, g := range a.Access.Grants() {
		account, ok := a.Access.AccountByID(g.Account)
		if ok || g.AccountGroup != "" { // the account may have been removed meanwhile
			grants = append(grants, grantOf(account.Email, g))
		}
	}
	return map[string][]Grant{"grants": grants}, nil
}

func grantOf(email site.Email, g site.Grant) Grant {
	return Grant{Email: email, AccountGroup: g.AccountGroup, StationID: g.Station, StationGroup: g.StationGroup, GrantTerms: g.Terms}
}

func (a *API) grant(r *request, terms GrantTerms) (any, error) {
	g, err := a.named(r, site.Grant{Terms: terms})
	if err != nil {
		return nil, err
	}
	changed, err := a.Access.PutGrant(r.Context(), r.Actor, g)
	return Granted{Grant: grantOf(r.account.Email, g), Changed: changed}, err
}

func (a *API) ungrant(r *request) (any, error) {
	g, err := a.named(r, site.Grant{})
	if err != nil {
		return nil, err
	}
	return nil, a.Access.RemoveGrant(r.Context(), r.Actor, g.Key())
}

// named returns a grant for whom and for what the path of the request names.
func (a *API) named(r *request, g site.Grant) (site.Grant, error) {
	who, notWho := site.ParseWho(r.PathValue("who"))
	what, err := site.ParseWhat(r.PathValue("what"))
	if err = errors.Join(notWho, err); err != nil {
		return g, invalid(err)
	}
	g.AccountGroup, g.Station, g.StationGroup = who.Group, what.Station, what.Group
	if who.Group == "" {
		r.account, err = a.account(string(who.Email))
		g.Account = r.account.ID
	}
	if what.Station != 0 && err == nil {
		_, err = a.enrolled(what.String())
	}
	return g, err
}

// invalid returns an error of reading a text as Invalid.
func invalid(err error) error { return fault.New(fault.Invalid, err.Error()) }
