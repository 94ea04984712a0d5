package adminapi

import (
	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func (a *API) status(*request) (any, error) { return a.Status(), nil }

func (a *API) accounts(*request) (any, error) {
	accounts := []Account{}
	for _, account := range a.Access.Accounts() {
		accounts = append(accounts, accountOf(account))
	}
	return map[string][]Account{"accounts": accounts}, nil
}

func accountOf(a site.Account) Account {
	return Account{AccountID: a.ID, Email: a.Email, Admin: a.Admin, Created: site.At(a.Created)}
}

func (a *API) addAccount(r *request, in NewAccount) (any, error) {
	password, generated := passwordOr(in.Password)
	added, err := a.Access.AddAccount(r.Context(), r.Actor, in.Email, password, in.Admin)
	return IssuedAccount{AccountID: added.ID, Email: added.Email, Password: generated}, err
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
	err := a.Access.SetAdmin(r.Context(), r.Actor, string(r.account.Email), *in.Admin)
	r.account.Admin = *in.Admin
	return accountOf(r.account), err
}

func (a *API) removeAccount(r *request) (any, error) {
	return nil, a.Access.RemoveAccount(r.Context(), r.Actor, string(r.account.Email))
}

func (a *API) setPassword(r *request, in NewPassword) (any, error) {
	password, generated := passwordOr(in.Password)
	err := a.Access.SetPassword(r.Context(), r.Actor, string(r.account.Email), password)
	return IssuedAccount{AccountID: r.account.ID, Email: r.account.Email, Password: generated}, err
}

func (a *API) sessions(r *request) (any, error) {
	sessions := []Session{}
	live, err := a.Access.Sessions(string(r.account.Email))
	for _, s := range live {
		sessions = append(sessions, Session{
			SessionID: s.ID, Created: site.At(s.Created), Expires: site.At(s.Expires), Remote: s.Remote,
		})
	}
	return map[string][]Session{"sessions": sessions}, err
}

func (a *API) endSession(r *request) (any, error) {
	id := site.SessionID(r.PathValue("session"))
	return nil, a.Access.RevokeSession(r.Context(), r.Actor, string(r.account.Email), id)
}

func (a *API) revoke(r *request) (any, error) {
	ended, err := a.Access.RevokeAccount(r.Context(), r.Actor, string(r.account.Email))
	return Revoked{Ended: ended}, err
}
