package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/deadline"
)

// endTimeout is how long the end of a session may take to reach the storage, also
// when the client has gone meanwhile.
const endTimeout = 10 * time.Second

// loginTimeout is how long a login may take: 30 s of waiting for a slot, and the
// storage's time.
const loginTimeout = 45 * time.Second

// login makes a session from an e-mail address and a password.
func (a *API) login(x *exchange) {
	f, _, err := x.readFields()
	if err != nil {
		x.fail(err)
		return
	}
	email, err := f.need("email")
	if err != nil {
		x.fail(err)
		return
	}
	password, err := f.need("password")
	if err != nil {
		x.fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), loginTimeout)
	defer cancel()
	remote := remoteAddr(x.r)
	tokens, err := deadline.Await(ctx, func(ctx context.Context) (access.Tokens, error) {
		return a.access.Login(ctx, email, site.Secret(password), remote)
	})
	if err != nil {
		x.fail(err)
		return
	}
	x.buf = append(x.buf[:0], `{"accessToken":`...)
	x.buf = appendText(x.buf, tokens.Access.Reveal())
	x.buf = append(x.buf, `,"refreshToken":`...)
	x.buf = appendText(x.buf, tokens.Refresh.Reveal())
	x.buf = append(x.buf, '}')
	x.json(http.StatusOK, x.buf)
}

// remoteAddr gives the address of the client; not valid when it has none.
func remoteAddr(r *http.Request) netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return remote.Addr().Unmap()
}

// refresh makes a new access token from a refresh token.
func (a *API) refresh(x *exchange) {
	f, _, err := x.readFields()
	if err != nil {
		x.fail(err)
		return
	}
	refresh, err := f.need(refreshToken)
	if err != nil {
		x.fail(err)
		return
	}
	token, err := a.access.Refresh(x.r.Context(), site.Secret(refresh))
	if err != nil {
		x.fail(err)
		return
	}
	x.buf = append(x.buf[:0], `{"accessToken":`...)
	x.buf = appendText(x.buf, token.Reveal())
	x.buf = append(x.buf, '}')
	x.json(http.StatusOK, x.buf)
}

// refreshToken is the name of the field that carries a refresh token.
const refreshToken = "refreshToken"

// revoke ends one session.
func (a *API) revoke(x *exchange) { x.end(a.access.RevokeByRefresh, a.access.RevokeBySession) }

// revokeAll ends every session of an account.
func (a *API) revokeAll(x *exchange) { x.end(a.access.RevokeAllByRefresh, a.access.RevokeAllByActor) }

// end ends what the refresh token in the body names or, where there is none, the
// bearer. It goes on when the client has gone: a logout that was asked for is done.
func (x *exchange) end(
	byRefresh func(context.Context, site.Secret) error,
	byActor func(context.Context, site.Actor) error,
) {
	refresh, given, err := x.optionalRefreshToken()
	if err != nil {
		x.fail(err)
		return
	}
	if !given && !x.authenticate(x.api.access.AuthenticateToRevoke) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), endTimeout)
	defer cancel()
	actor := x.actor
	_, err = deadline.Await(ctx, func(ctx context.Context) (struct{}, error) {
		if given {
			return struct{}{}, byRefresh(ctx, refresh)
		}
		return struct{}{}, byActor(ctx, actor)
	})
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, []byte(`{"success":true}`))
}

// optionalRefreshToken gives the refresh token of the body, if there is one. A body
// without it needs a bearer to stand in.
func (x *exchange) optionalRefreshToken() (site.Secret, bool, error) {
	f, body, err := x.readFields()
	if err != nil {
		return "", false, err
	}
	value, given, err := f.text(refreshToken)
	if err == nil && body && !given && len(x.r.Header["Authorization"]) == 0 {
		err = fault.New(fault.Invalid, "The field "+refreshToken+" is missing")
	}
	return site.Secret(value), given, err
}
