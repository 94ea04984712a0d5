package httpapi

import (
	"context"
	"net/http"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// endTimeout is how long the end of a session may take to reach the storage, also
// when the client has disconnected.
const endTimeout = 10 * time.Second

// loginTimeout is how long a login may take: 30 s of waiting for a slot, and the
// storage's time.
const loginTimeout = 45 * time.Second

// refreshToken is the name of the field that carries a refresh token.
const refreshToken = "refreshToken"

// tokenPair is the answer to a login and, without a refresh token, to a refresh. It holds
// secrets in clear text.
type tokenPair struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken,omitempty"`
}

// byDevice returns who logs in: an account, if a device shows its secret that is known for it.
func (a *API) byDevice(r *kit.Request) kit.Known {
	given, err := r.Need("email", "password")
	if err != nil {
		return kit.Known{}
	}
	return kit.Known(a.Access.Recognise(given[0], a.client(r)))
}

// client returns what a login knows of its client.
func (a *API) client(r *kit.Request) access.Client {
	return access.Client{Remote: r.Remote(), Device: r.Only(kit.DeviceCookie(a.Gateway)), Name: r.Client()}
}

// byToken returns the account of the refresh token in the body or, without one, of the bearer.
func (a *API) byToken(r *kit.Request) kit.Known {
	verify := a.Access.RefreshToRevoke
	text, _ := r.Text(refreshToken)
	token := site.Secret(text)
	if token == "" {
		verify = a.Access.AuthenticateToRevoke
		token, _ = r.Token()
	}
	actor, _ := verify(token)
	return kit.Known{Account: actor.Account}
}

// login creates a session for an e-mail address and a password.
func (a *API) login(x *kit.Exchange) error {
	tokens, err := a.logIn(x)
	if err != nil {
		return err
	}
	return x.Encode(http.StatusOK, tokenPair{tokens.Access.Reveal(), tokens.Refresh.Reveal()})
}

// logIn returns the tokens of a session for the e-mail address and password in the body, and
// has the client keep the secret of its device (contract, section 1).
func (a *API) logIn(x *kit.Exchange) (access.Tokens, error) {
	given, err := x.Req.Need("email", "password")
	if err != nil {
		return access.Tokens{}, err
	}
	ctx, cancel := context.WithTimeout(x.Req.Context(), loginTimeout)
	defer cancel()
	tokens, err := kit.Await(ctx, func(ctx context.Context) (access.Tokens, error) {
		return a.Access.Login(ctx, given[0], site.Secret(given[1]), a.client(&x.Req))
	})
	if err == nil {
		x.SetCookie(kit.DeviceCookie(a.Gateway), tokens.Device, cookieLife)
	}
	return tokens, err
}

// refresh creates an access token from a refresh token.
func (a *API) refresh(x *kit.Exchange) error {
	given, err := x.Req.Need(refreshToken)
	if err != nil {
		return err
	}
	token, err := a.Access.Refresh(x.Req.Context(), site.Secret(given[0]))
	if err != nil {
		return err
	}
	return x.Encode(http.StatusOK, tokenPair{AccessToken: token.Reveal()})
}

// revoke ends one session.
func (a *API) revoke(x *kit.Exchange) error { return a.end(x, false) }

// revokeAll ends every session of an account.
func (a *API) revokeAll(x *kit.Exchange) error { return a.end(x, true) }

// end ends what the refresh token in the body names or, without one, the bearer.
func (a *API) end(x *kit.Exchange, all bool) error {
	refresh, err := x.Req.Text(refreshToken)
	if err != nil {
		return err
	}
	var actor site.Actor
	if refresh == "" {
		if x.Req.HasBody() && !x.Req.HasAuthorization() {
			return fault.New(fault.Invalid, "The field "+refreshToken+" is missing")
		}
		actor, err = kit.Bearer(a.Access.AuthenticateToRevoke)(x)
	} else {
		actor, err = a.Access.RefreshToRevoke(site.Secret(refresh))
	}
	if err != nil {
		return err
	}
	x.Req.Actor = actor
	if err := a.endSession(x, all); err != nil {
		return err
	}
	return x.JSON(http.StatusOK, []byte(`{"success":true}`))
}

// endSession ends the session behind a request, or with all every one of its account. It
// continues when the client disconnects: a logout that was asked for is done.
func (a *API) endSession(x *kit.Exchange, all bool) error {
	actor := x.Req.Actor
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Req.Context()), endTimeout)
	defer cancel()
	if x.Hurried() {
		cancel()
	}
	_, err := kit.Await(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.Access.Revoke(ctx, actor, all)
	})
	return err
}
