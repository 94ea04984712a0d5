package adminapi

import (
	"context"
	"net/http"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// actorKey is the key of a request's actor in its context.
type actorKey struct{}

func withActor(r *http.Request, by site.Actor) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), actorKey{}, by))
}

// actorOf gives the administrator behind a request; the zero Actor where none was
// let in.
func actorOf(ctx context.Context) site.Actor {
	by, _ := ctx.Value(actorKey{}).(site.Actor)
	return by
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
		next.ServeHTTP(w, withActor(r, site.Actor{Origin: site.Admin, Admin: true, Name: p.name()}))
	})
}

// throughWeb lets in whoever has the access token of an administrator account.
func (a *API) throughWeb(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := a.Access.Authenticate(bearer(r))
		if err != nil {
			a.turnAway(w, r, "admin-token", err)
			return
		}
		if !by.Admin {
			a.turnAway(w, r, "admin-account", fault.New(fault.Forbidden, "Forbidden: this account is not an administrator"))
			return
		}
		by.Origin, by.Name = site.Admin, string(by.Email)
		next.ServeHTTP(w, withActor(r, by))
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
