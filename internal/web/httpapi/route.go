package httpapi

import (
	"log/slog"
	"net/http"

	"gatehouse/internal/web/kit"
)

// Options state what one listener offers besides /v1, /local/v1, /healthz and /readyz.
type Options struct {
	Metrics bool // /metrics

	// Authority returns the certificate of the gateway's own authority as PEM, or nil if
	// there is none; it is served as /ca.crt. Nil: there is no /ca.crt.
	Authority func() []byte
}

// Routes returns the route table of a listener.
func (a *API) Routes(o Options) []kit.Route {
	const get, post = http.MethodGet, http.MethodPost
	const debug, info = slog.LevelDebug, slog.LevelInfo
	bearer := kit.Bearer(a.Access.Authenticate)
	routes := append(probes(a.Health), []kit.Route{
		{Method: post, Pattern: "/v1/auth/login", Serve: a.login, JSON: true, Level: info},
		{Method: post, Pattern: "/v1/auth/refresh", Serve: a.refresh, JSON: true, Level: debug},
		{Method: post, Pattern: "/v1/auth/revoke", Serve: a.revoke, JSON: true, Level: info},
		{Method: post, Pattern: "/v1/auth/revoke-all", Serve: a.revokeAll, JSON: true, Level: info},
		{Method: get, Pattern: "/v1/stations/{station_token}", Guard: bearer, Serve: a.readStation, Level: debug},
		{Method: post, Pattern: "/v1/stations/{station_token}/locks/{lock_id}/unlock", Guard: bearer, Serve: a.unlock, Level: info},
		{Pattern: "/v1/webhooks", Serve: notImplemented, Level: debug},
		{Pattern: "/v1/webhooks/{id}", Serve: notImplemented, Level: debug},
		{Method: get, Pattern: "/v1/openapi.json", Serve: serveOpenAPI, Level: debug},

		{Method: get, Pattern: "/local/v1/stations", Guard: bearer, Serve: a.listStations, Level: debug},
		{Method: get, Pattern: "/local/v1/watch", Guard: bearer, Serve: a.watch, Level: debug},
		{Method: get, Pattern: "/local/v1/stations/{station_token}/events", Guard: bearer, Serve: a.events, Level: debug},
		{Method: post, Pattern: "/local/v1/stations/{station_token}/locks/{lock_id}/unlock", Guard: bearer, Serve: a.unlockAndWait, Level: info},
		{Method: get, Pattern: "/local/v1/commands/{command_id}", Guard: bearer, Serve: a.readCommand, Level: debug},
		{Method: post, Pattern: "/local/v1/setup", Guard: a.maySetUp, Serve: a.setUp, JSON: true, Level: info},

		{Pattern: "/{$}", Serve: a.front(o.Authority), Level: debug},
	}...)
	if o.Metrics {
		routes = append(routes, kit.Route{Method: get, Pattern: "/metrics", Serve: a.writeMetrics, Level: debug})
	}
	if o.Authority != nil {
		routes = append(routes, authorityRoute(o.Authority))
	}
	return routes
}
