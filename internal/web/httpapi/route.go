package httpapi

import (
	"log/slog"
	"net/http"

	"gatehouse/internal/web/kit"
)

// Options state what one listener offers besides /v1, /local/v1, /healthz and /readyz.
type Options struct {
	Metrics bool // /metrics
}

// Routes returns the route table of a listener.
func (a *API) Routes(o Options) []kit.Route {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	const debug, info = slog.LevelDebug, slog.LevelInfo
	bearer, session := kit.Bearer(a.Access.Authenticate), kit.Session(a.Gateway, a.Access.Authenticate, a.Access.AuthenticateCookie)
	ending := kit.Session(a.Gateway, a.Access.AuthenticateToRevoke, a.Access.CookieToRevoke)
	routes := append(probes(a.Health), []kit.Route{
		{Method: post, Pattern: "/v1/auth/login", Serve: a.login, Known: a.byDevice, JSON: true, Level: info},
		{Method: post, Pattern: "/v1/auth/refresh", Serve: a.refresh, Known: a.byToken, JSON: true, Level: debug},
		{Method: post, Pattern: "/v1/auth/revoke", Serve: a.revoke, Known: a.byToken, JSON: true, Level: info},
		{Method: post, Pattern: "/v1/auth/revoke-all", Serve: a.revokeAll, Known: a.byToken, JSON: true, Level: info},
		{Method: get, Pattern: "/v1/stations/{station_token}", Guard: bearer, Serve: a.readStation, Level: debug},
		{Method: post, Pattern: "/v1/stations/{station_token}/locks/{lock_id}/unlock", Guard: bearer, Serve: a.unlock, Door: true, Level: info},
		{Pattern: "/v1/webhooks", Serve: notImplemented, Level: debug},
		{Pattern: "/v1/webhooks/{id}", Serve: notImplemented, Level: debug},
		{Method: get, Pattern: "/v1/openapi.json", Serve: kit.Document("application/json", openAPI), Level: debug},

		{Method: get, Pattern: "/local/v1/stations", Guard: session, Serve: a.listStations, Level: debug},
		{Method: get, Pattern: "/local/v1/watch", Guard: session, Serve: a.watch, Level: debug},
		{Method: get, Pattern: "/local/v1/stations/{station_token}/events", Guard: session, Serve: a.events, Level: debug},
		{Method: post, Pattern: "/local/v1/stations/{station_token}/locks/{lock_id}/unlock", Guard: session, Serve: a.unlockAndWait, Door: true, Level: info},
		{Method: get, Pattern: "/local/v1/commands/{command_id}", Guard: session, Serve: a.readCommand, Level: debug},
		{Method: get, Pattern: "/local/v1/setup", Guard: kit.Addressed, Serve: a.showSetup, Level: debug},
		{Method: post, Pattern: "/local/v1/setup", Guard: a.maySetUp, Serve: a.setUp, JSON: true, Level: info},
		{Method: post, Pattern: "/local/v1/session", Guard: kit.FromPage, Serve: a.signIn, Known: a.byDevice, JSON: true, Level: info},
		{Method: get, Pattern: "/local/v1/openapi.json", Serve: kit.Document("application/json", openLocal), Level: debug},
		{Method: get, Pattern: "/local/v1/session", Guard: session, Serve: a.showSession, Level: debug},
		{Method: remove, Pattern: "/local/v1/session", Guard: ending, Serve: a.signOut, Level: debug},
	}...)
	if o.Metrics {
		routes = append(routes, kit.Route{Method: get, Pattern: "/metrics", Serve: a.writeMetrics, Level: debug})
	}
	return routes
}
