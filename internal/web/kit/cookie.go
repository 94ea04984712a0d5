package kit

import (
	"net/http"
	"time"

	"gatehouse/internal/site"
)

// Session returns a guard of a gateway that admits whom bearer finds behind the access token of the
// request. A request without an Authorization header may have the cookie of a session
// instead, and is admitted as whom session finds behind that; then
// [Exchange.CheckPage] applies.
func Session(gateway site.GatewayID, bearer, session func(site.Secret) (site.Actor, error)) Guard {
	byToken := Bearer(bearer)
	return func(x *Exchange) (site.Actor, error) {
		cookie := x.Req.Only(x.SessionCookie(gateway))
		if x.Req.HasAuthorization() || cookie == "" {
			return byToken(x)
		}
		if err := x.CheckPage(); err != nil {
			return site.Actor{}, err
		}
		return session(cookie)
	}
}

// SessionCookie returns the name of the cookie of a session. It names the gateway, because a
// browser shares cookies between all ports of a host. Over TLS its prefix has the browser
// refuse one that another host or a plain connection sets (RFC 6265bis, 4.1.3.2).
func (x *Exchange) SessionCookie(gateway site.GatewayID) string {
	name := "gatehouse-" + string(gateway)
	if x.Req.TLS {
		return "__Host-" + name
	}
	return name
}

// DeviceCookie returns the name of the cookie that shows which device logs in at a gateway.
func DeviceCookie(id site.GatewayID) string { return "gatehouse-device-" + string(id) }

// Only returns the value of the cookie of that name, "" without one. A request with
// several has none: which one counts would be a guess.
func (r *Request) Only(name string) site.Secret {
	if all := r.CookiesNamed(name); len(all) == 1 {
		return site.Secret(all[0].Value)
	}
	return ""
}

// SetCookie has the client keep a cookie for as long as life, and no page read it.
func (x *Exchange) SetCookie(name string, value site.Secret, life time.Duration) {
	x.writeCookie(name, value.Reveal(), int(life/time.Second))
}

// ClearCookie has the client forget a cookie.
func (x *Exchange) ClearCookie(name string) { x.writeCookie(name, "", -1) }

func (x *Exchange) writeCookie(name, value string, age int) {
	http.SetCookie(x, &http.Cookie{ //nolint:gosec // without Secure on plain HTTP, where it serves this machine alone
		Name: name, Value: value, Path: "/", MaxAge: age,
		Secure: x.Req.TLS, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}
