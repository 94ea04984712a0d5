package adminapi

import (
	"context"
	"net/http"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// callerKey is the key of a request's caller in its context.
type callerKey struct{}

// caller is an administrator who was let in.
type caller struct {
	by    site.Actor
	door  Door
	stays func() bool // whether the administrator would be let in now
}

func withCaller(r *http.Request, c caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// actorOf gives the administrator behind a request; the zero Actor where none was
// let in.
func actorOf(ctx context.Context) site.Actor {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.by
}

// doorOf returns the door through which a request came.
func doorOf(ctx context.Context) Door {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.door
}

// staysOf returns a function that reports whether the administrator behind a request
// would be let in now. Streams call it repeatedly.
func staysOf(ctx context.Context) func() bool {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.stays
	}
	return func() bool { return false }
}

// throughSocket lets in whom the credentials of the connection allow.
func (a *API) throughSocket(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := peerOf(r.Context())
		if p == nil {
			a.turnAway(w, r, "no-credentials", fault.New(fault.Forbidden, "Forbidden: this connection carries no credentials"))
			return
		}
		if !p.allowed() {
			a.Logger.Warn("admin socket refused a peer", "peer", p.name())
			a.turnAway(w, r, "admin-peer", fault.New(fault.Forbidden,
				"Forbidden: only root, the user of the gateway and members of the socket's group may use it"))
			return
		}
		by := site.Actor{Origin: site.Admin, Admin: true, Name: p.name()}
		next.ServeHTTP(w, withCaller(r, caller{by, Socket, func() bool { return true }})) // a local process does not lose its right
	})
}

// throughWeb lets in whoever has the access token of an administrator account.
func (a *API) throughWeb(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		by, err := a.Access.Authenticate(token)
		if err != nil {
			a.turnAway(w, r, "admin-token", err)
			return
		}
		if !by.Admin {
			a.turnAway(w, r, "admin-account", fault.New(fault.Forbidden, "Forbidden: this account is not an administrator"))
			return
		}
		by.Origin, by.Name = site.Admin, string(by.Email)
		next.ServeHTTP(w, withCaller(r, caller{by, Web, func() bool {
			now, err := a.Access.Authenticate(token)
			return err == nil && now.Admin
		}}))
	})
}

// bearer gives the token of the Authorization header, or "" (RFC 6750, 2.1).
func bearer(r *http.Request) site.Secret {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return site.Secret(strings.TrimLeft(token, " "))
}

func (a *API) crossOrigin(w http.ResponseWriter, r *http.Request) {
	a.turnAway(w, r, "admin-cross-origin", fault.New(fault.Forbidden, "Forbidden: a page of another origin sent this"))
}

// turnAway answers someone who was not let in and counts the reason.
func (a *API) turnAway(w http.ResponseWriter, r *http.Request, reason string, err error) {
	a.Metrics.Refused(reason)
	a.refuse(w, r, "door", err)
}
