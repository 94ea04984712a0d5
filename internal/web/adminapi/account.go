package adminapi

import (
	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func (a *API) status(r *request) (any, error) { return a.Status(r.Context()) }

func (a *API) accounts(*request) (any, error) {
	list := AccountList{Accounts: []Account{}}
	for _, account := range a.Access.Accounts() {
		list.Accounts = append(list.Accounts, accountOf(account))
	}
	return list, nil
}

func accountOf(a site.Account) Account {
	return Account{AccountID: a.ID, Email: a.Email, Admin: a.Admin, Created: site.At(a.Created)}
}

func (a *API) addAccount(r *request, in NewAccount) (any, error) {
	password, generated := passwordOr(in.Password)
	added, err := a.Access.AddAccount(r.Context(), r.Actor, in.Email, password, in.Admin)
	if err != nil {
		return nil, err
	}
	return IssuedAccount{AccountID: added.ID, Email: added.Email, Password: generated}, nil
}

// passwordOr returns the password to set, and the one to show if it was generated.
func passwordOr(given string) (password site.Secret, generated string) {
	if given != "" {
		return site.Secret(given), ""
	}
	password = access.GeneratePassword()
	return password, password.Reveal()
}

func (a *API) changeAccount(r *request, in AccountPatch) (any, error) {
	if in.Admin == nil {
		return nil, fault.New(fault.Invalid, `Say what to change: "admin"`)
	}
	if err := a.Access.SetAdmin(r.Context(), r.Actor, r.email(), *in.Admin); err != nil {
		return nil, err
	}
	account, err := a.Access.AccountByEmail(r.email())
	if err != nil {
		return nil, err
	}
	return accountOf(account), nil
}

func (a *API) removeAccount(r *request) (any, error) {
	return nil, a.Access.RemoveAccount(r.Context(), r.Actor, r.email())
}

func (a *API) setPassword(r *request, in NewPassword) (any, error) {
	account, err := a.Access.AccountByEmail(r.email())
	if err != nil {
		return nil, err
	}
	password, generated := passwordOr(in.Password)
	if err := a.Access.SetPassword(r.Context(), r.Actor, string(account.Email), password); err != nil {
		return nil, err
	}
	return IssuedAccount{AccountID: account.ID, Email: account.Email, Password: generated}, nil
}

func (a *API) sessions(r *request) (any, error) {
	sessions, err := a.Access.Sessions(r.email())
	if err != nil {
		return nil, err
	}
	list := SessionList{Sessions: []Session{}}
	for _, s := range sessions {
		list.Sessions = append(list.Sessions, Session{
			SessionID: s.ID, Created: site.At(s.Created), Expires: site.At(s.Expires), Remote: s.Remote,
		})
	}
	return list, nil
}

func (a *API) revoke(r *request) (any, error) {
	ended, err := a.Access.RevokeAccount(r.Context(), r.Actor, r.email())
	if err != nil {
		return nil, err
	}
	return Revoked{Ended: ended}, nil
}
