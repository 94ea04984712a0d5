package adminapi

import (
	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

func (a *API) status(*request) (any, error) { return a.Status(), nil }

func (a *API) accounts(*request) (any, error) {
	return map[string][]Account{"accounts": a.Access.Accounts()}, nil
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
	return r.account, err
}

func (a *API) removeAccount(r *request) (any, error) {
	return nil, a.Access.RemoveAccount(r.Context(), r.Actor, string(r.account.Email))
}

// setPassword ends sessions before the password is stored, so that they end even if it cannot
// be, and then those that began meanwhile with the old one.
func (a *API) setPassword(r *request, in NewPassword) (any, error) {
	if r.Actor.Account == r.account.ID {
		if in.Present == "" {
			return nil, fault.New(fault.Invalid, "The present password of your account is missing: send it as \"present\"")
		}
		if err := a.Access.ConfirmPassword(r.Context(), r.Actor, site.Secret(in.Present), a.client(&r.Request)); err != nil {
			return nil, err
		}
	}
	password, generated := passwordOr(in.Password)
	out := ChangedPassword{IssuedAccount: IssuedAccount{AccountID: r.account.ID, Email: r.account.Email, Password: generated}}
	if err := access.CheckPassword(r.account.Email, password); err != nil {
		return nil, err
	}
	end := func() error {
		if !in.EndSessions {
			return nil
		}
		ended, err := a.Access.RevokeOthers(r.Context(), r.Actor, string(r.account.Email))
		out.Ended += ended
		return err
	}
	if err := end(); err != nil {
		return nil, err
	}
	if err := a.Access.SetPassword(r.Context(), r.Actor, string(r.account.Email), password); err != nil {
		return nil, err
	}
	return out, end()
}

// client returns the client of a request, as a login would know it.
func (a *API) client(r *kit.Request) access.Client {
	return access.Client{Remote: r.Remote(), Device: r.Only(kit.DeviceCookie(a.Gateway))}
}

func (a *API) sessions(r *request) (any, error) {
	live, err := a.Access.Sessions(string(r.account.Email))
	out := make([]Session, 0, len(live))
	for _, s := range live {
		out = append(out, Session{s, s.ID == r.Actor.Session})
	}
	return map[string][]Session{"sessions": out}, err
}

func (a *API) endSession(r *request) (any, error) {
	id := site.SessionID(r.PathValue("session"))
	return nil, a.Access.RevokeSession(r.Context(), r.Actor, string(r.account.Email), id)
}

func (a *API) endAll(r *request) (any, error) { return a.EndAll(r.Context(), r.Actor) }

func (a *API) revoke(r *request) (any, error) {
	ended, err := a.Access.RevokeAccount(r.Context(), r.Actor, string(r.account.Email))
	return Revoked{Ended: ended}, err
}
