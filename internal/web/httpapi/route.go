package httpapi

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// auth says what a route asks of a request before its handler runs.
type auth int

const (
	public auth = iota // nothing, or the handler looks itself
	bearer             // a valid access token; exchange.actor is set
)

// place says on which listeners a route is.
type place int

const (
	everywhere place = iota
	onMetrics        // where ListenerOptions.Metrics is set
	onAdmin          // where ListenerOptions.Admin is set
)

// anyMethod is the method of a route that takes every method.
const anyMethod = ""

// route is one line of the route table. Its pattern is what logs and metrics name,
// never the path of the request.
type route struct {
	method  string
	pattern string
	auth    auth
	serve   func(*exchange)
	place   place
	level   slog.Level // of the log line of a request that got 200
}

// routes is the route table: everything that this package answers.
func (a *API) routes() []route {
	const (
		get, post   = http.MethodGet, http.MethodPost
		debug, info = slog.LevelDebug, slog.LevelInfo
	)
	return []route{
		{post, "/v1/auth/login", public, a.login, everywhere, info},
		{post, "/v1/auth/refresh", public, a.refresh, everywhere, debug},
		{post, "/v1/auth/revoke", public, a.revoke, everywhere, info},
		{post, "/v1/auth/revoke-all", public, a.revokeAll, everywhere, info},
		{get, "/v1/stations/{station_token}", bearer, a.readStation, everywhere, debug},
		{post, "/v1/stations/{station_token}/locks/{lock_id}/unlock", bearer, a.unlock, everywhere, info},
		{anyMethod, "/v1/webhooks", public, notImplemented, everywhere, debug},
		{anyMethod, "/v1/webhooks/{id}", public, notImplemented, everywhere, debug},
		{get, "/v1/openapi.json", public, serveOpenAPI, everywhere, debug},

		{get, "/local/v1/stations", bearer, a.listStations, everywhere, debug},
		{get, "/local/v1/stations/{station_token}/events", bearer, a.events, everywhere, debug},
		{post, "/local/v1/stations/{station_token}/locks/{lock_id}/unlock", bearer, a.unlockAndWait, everywhere, info},
		{get, "/local/v1/commands/{command_id}", bearer, a.readCommand, everywhere, debug},
		{post, "/local/v1/setup", public, a.setUp, everywhere, info},

		{get, "/healthz", public, alive, everywhere, debug},
		{get, "/readyz", public, a.ready, everywhere, debug},
		{get, "/metrics", public, a.writeMetrics, onMetrics, debug},
		{anyMethod, "/admin/v1/", public, a.serveAdmin, onAdmin, debug},
	}
}

// offered reports whether a listener has the route.
func (r route) offered(options ListenerOptions, admin http.Handler) bool {
	switch r.place {
	case onMetrics:
		return options.Metrics
	case onAdmin:
		return options.Admin && admin != nil
	default:
		return true
	}
}

// resource is one pattern with the routes that its methods have.
type resource struct {
	pattern string
	routes  []route
	allow   string // the Allow header of a 405
}

// mux finds resources by path. The methods are ours to tell apart, because net/http
// would answer 405 in text. "/admin/v1" is named so that net/http does not redirect
// it to "/admin/v1/".
func (a *API) mux(options ListenerOptions) *http.ServeMux {
	resources := map[string]*resource{"/": {}, "/admin/v1": {}}
	for _, rt := range a.routes() {
		if !rt.offered(options, a.admin) {
			continue
		}
		res, ok := resources[rt.pattern]
		if !ok {
			res = &resource{pattern: rt.pattern}
			resources[rt.pattern] = res
		}
		res.add(rt)
	}
	mux := http.NewServeMux()
	for pattern, res := range resources {
		mux.Handle(pattern, res)
	}
	return mux
}

func (res *resource) add(rt route) {
	res.routes = append(res.routes, rt)
	methods := make([]string, 0, 2*len(res.routes))
	for _, r := range res.routes {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	res.allow = strings.Join(methods, ", ")
}

// find gives the route of a method; HEAD is GET without the body, which net/http
// leaves out.
func (res *resource) find(method string) *route {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range res.routes {
		if m := res.routes[i].method; m == method || m == anyMethod {
			return &res.routes[i]
		}
	}
	return nil
}

// ServeHTTP answers with the route of the method, 405 or 404. It is only called
// through listenerHandler, so w is an exchange.
func (res *resource) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	x := w.(*exchange)
	x.pattern = res.pattern
	if res.pattern == "" {
		x.refuse(http.StatusNotFound, "Not found")
		return
	}
	rt := res.find(x.r.Method)
	if rt == nil {
		x.Header().Set("Allow", res.allow)
		x.refuse(http.StatusMethodNotAllowed, "Method not allowed")
		return
	}
	x.level = rt.level
	if rt.auth == bearer && !x.authenticate(x.api.access.Authenticate) {
		return
	}
	rt.serve(x)
}

// listenerHandler is the handler of one listener.
type listenerHandler struct {
	api *API
	mux *http.ServeMux
	tls bool

	authority func() []byte
}

// ServeHTTP implements [http.Handler].
func (h *listenerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.api.begin(w, r, h.tls)
	defer x.finish()
	if !x.enter() {
		return
	}
	if !canonical(r.URL.EscapedPath()) {
		x.refuse(http.StatusNotFound, "Not found")
		return
	}
	if h.authority != nil && r.URL.Path == authorityPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		x.pattern = authorityPath
		x.giveAuthority(h.authority)
		return
	}
	h.mux.ServeHTTP(x, r)
}

// canonical reports whether path has no empty and no dot segment: net/http would
// redirect it. Also false for the "*" of OPTIONS and the nothing of CONNECT.
func canonical(path string) bool {
	if path == "" || path[0] != '/' || strings.Contains(path, "//") {
		return false
	}
	if !strings.Contains(path, "/.") {
		return true
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
