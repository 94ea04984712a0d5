package httpapi

import (
	"net/http"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// cookieLife is how long a client keeps the cookies of a session and of its device: as long
// as the session lives (specification, "Limits").
const cookieLife = 30 * 24 * time.Hour

// signedIn is the account behind a session.
type signedIn struct {
	AccountID site.AccountID `json:"accountId"`
	Email     site.Email     `json:"email"`
	Admin     bool           `json:"admin"`
}

// signIn is a login whose session the browser keeps as a cookie, which is no refresh token.
// It ends the session whose cookie that replaces, which nobody could sign out of any more.
func (a *API) signIn(x *kit.Exchange) error {
	tokens, err := a.logIn(x)
	if err != nil {
		return err
	}
	name := x.SessionCookie(a.Gateway)
	if x.Req.Actor, err = a.Access.AuthenticateCookie(x.Req.Only(name)); err == nil {
		_ = a.endSession(x, false) // it has ended, even if that is not stored yet
	}
	if x.Req.Actor, err = a.Access.AuthenticateCookie(tokens.Cookie); err != nil {
		return err // it has ended meanwhile
	}
	x.SetCookie(name, tokens.Cookie, cookieLife)
	return a.showSession(x)
}

// showSession answers with the account that the request is signed in to.
func (a *API) showSession(x *kit.Exchange) error {
	by := x.Req.Actor
	return x.Encode(http.StatusOK, signedIn{by.Account, by.Email, by.Admin})
}

// signOut ends the session of the request.
func (a *API) signOut(x *kit.Exchange) error {
	if err := a.endSession(x, false); err != nil {
		return err
	}
	x.ClearCookie(x.SessionCookie(a.Gateway))
	return x.Encode(http.StatusNoContent, nil)
}
