package adminapi

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/web/deadline"
)

const (
	maxBody      = 16 << 10         // bytes of an ordinary request's body
	maxApply     = 8 << 20          // room for the largest site file as JSON
	briefly      = 25 * time.Second // what an ordinary request may take; its client waits 30 s
	lengthily    = 30 * time.Minute // what applying a site, or checking the journal or the database, may take
	maxStreams   = 64               // on the socket, and as many on the web
	maxOfAccount = 16               // streams of one account on the web
	maxChecks    = 1
	maxBackups   = 1
	unknownRoute = "unknown" // the label of requests that match no route
)

// route is one line of the table: exactly one of handle, stream and give is set.
type route struct {
	method string
	path   string // below Prefix
	handle func(*request) (any, error)
	stream func(*request, *stream) error
	give   func(http.ResponseWriter, *request) error // answers by itself, unless it fails before its answer
	local  bool                                      // through the socket only
	status int                                       // of success
	body   int64                                     // largest body in bytes
	within time.Duration                             // what handle may take
	prompt bool                                      // handle ends in time by itself, and uses request.exchange
}

// pattern names the route in logs and metrics.
func (rt route) pattern() string { return rt.method + " " + Prefix + rt.path }

func get(path string, handle func(*request) (any, error)) route {
	return route{method: http.MethodGet, path: path, handle: handle, status: http.StatusOK, within: briefly}
}

func follow(path string, stream func(*request, *stream) error) route {
	return route{method: http.MethodGet, path: path, stream: stream, status: http.StatusOK}
}

// locally is a route that gives what must not leave this machine in clear text.
func locally(path string, give func(http.ResponseWriter, *request) error) route {
	return route{method: http.MethodGet, path: path, give: give, status: http.StatusOK, local: true}
}

func act(method, path string, status int, handle func(*request) (any, error)) route {
	return route{method: method, path: path, handle: handle, status: status, body: maxBody, within: briefly}
}

func remove(path string, handle func(*request) (any, error)) route {
	return act(http.MethodDelete, path, http.StatusNoContent, handle)
}

// long lets a route take its time over a large body.
func long(rt route) route {
	rt.within, rt.body = lengthily, maxApply
	return rt
}

// prompt marks a route whose handle ends in time by itself. It runs in the goroutine of
// the request, so that it may use the exchange.
func prompt(rt route) route {
	rt.prompt = true
	return rt
}

// routes is the one table of the admin API.
func (a *API) routes() []route {
	const post, put, patch = http.MethodPost, http.MethodPut, http.MethodPatch
	const ok, created = http.StatusOK, http.StatusCreated
	return []route{
		get("/status", a.status),

		get("/accounts", a.accounts),
		act(post, "/accounts", created, a.addAccount),
		act(patch, "/accounts/{email}", ok, a.changeAccount),
		remove("/accounts/{email}", a.removeAccount),
		act(put, "/accounts/{email}/password", ok, a.setPassword),
		get("/accounts/{email}/sessions", a.sessions),
		act(post, "/accounts/{email}/revoke", ok, a.revoke),

		get("/stations", a.stations),
		act(post, "/stations", created, a.addStation),
		follow("/stations/watch", a.watch),
		get("/stations/{station}", a.station),
		act(patch, "/stations/{station}", ok, a.changeStation),
		remove("/stations/{station}", a.removeStation),
		act(post, "/stations/{station}/rotate", ok, a.rotate),
		prompt(act(post, "/stations/{station}/locks/{lock}/unlock", ok, a.unlock)),

		get("/grants", a.grants),
		act(put, "/grants/{email}/{station}", ok, a.grant),
		remove("/grants/{email}/{station}", a.ungrant),

		long(act(post, "/apply", ok, a.apply)),

		follow("/journal", a.journal),
		long(get("/journal/verify", a.verify)),
		long(act(post, "/journal/witnesses", ok, a.testify)),

		long(get("/database", a.database)),

		get("/clock", a.clock),
		act(post, "/clock/accept", ok, a.acceptClock),
		act(post, "/clock/reset", ok, a.resetClock),

		locally("/backup", a.backup),
	}
}

// mux serves the routes of a door. It answers paths and methods that no route has with
// JSON too.
func (a *API) mux(door Door) http.Handler {
	byPath := map[string][]route{}
	for _, rt := range a.routes() {
		if door == Socket || !rt.local {
			byPath[rt.path] = append(byPath[rt.path], rt)
		}
	}
	mux := http.NewServeMux()
	for below, routes := range byPath {
		mux.HandleFunc(Prefix+below, func(w http.ResponseWriter, r *http.Request) { a.choose(w, r, routes) })
	}
	mux.HandleFunc("/", a.unknownPath)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.EscapedPath(); p != path.Clean(p) {
			a.unknownPath(w, r) // the mux would redirect it
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// choose takes the route of one path that has the method.
func (a *API) choose(w http.ResponseWriter, r *http.Request, routes []route) {
	var methods []string
	for _, rt := range routes {
		if rt.method == r.Method {
			a.serve(w, r, rt)
			return
		}
		methods = append(methods, rt.method)
	}
	slices.Sort(methods)
	w.Header().Set("Allow", strings.Join(methods, ", "))
	a.refuse(w, r, Prefix+routes[0].path, &refusal{http.StatusMethodNotAllowed, "This needs another method: " + strings.Join(methods, " or ")})
}

func (a *API) unknownPath(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, r, unknownRoute, &refusal{http.StatusNotFound, "Not found"})
}

// serve runs a route for an administrator.
func (a *API) serve(w http.ResponseWriter, r *http.Request, rt route) {
	switch {
	case rt.stream != nil:
		a.serveStream(w, r, rt)
		return
	case rt.give != nil:
		a.serveGift(w, r, rt)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), rt.within)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(rt.within + writeTimeout))
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, rt.body)
	answer, err := rt.run(ctx, w, r)
	if err != nil {
		a.refuse(w, r, rt.pattern(), err)
		return
	}
	writeJSON(w, rt.status, answer)
	a.Metrics.Request(rt.pattern(), rt.status)
}

func (rt route) run(ctx context.Context, w http.ResponseWriter, r *http.Request) (any, error) {
	in := newRequest(w, r)
	if rt.prompt {
		return rt.handle(in)
	}
	in.exchange = nil // which the call may outlive
	return deadline.Await(ctx, func(context.Context) (any, error) { return rt.handle(in) })
}
