package kit

import (
	"cmp"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"gatehouse/internal/site"
)

// Handler answers a request. An error that it returns becomes the answer by its kind; if
// something was answered before, the connection is aborted.
type Handler func(*Exchange) error

// Guard returns who sends a request, before its body is read. Its error is the answer.
// A stream calls it repeatedly, so it must be quick.
type Guard func(*Exchange) (site.Actor, error)

// Route is one line of the table of an API.
type Route struct {
	Method  string // "" is every method; GET also answers HEAD
	Pattern string // of [http.ServeMux], without a method; logs and metrics name it
	Guard   Guard  // nil: the route is public
	Serve   Handler

	// Known returns who sends a request without a guard, by its body or a cookie; nil: a
	// stranger. Quick.
	Known func(*Request) Known

	Door    bool       // it opens a door: the turns of other requests and handshakes wait for it
	JSON    bool       // it reads a JSON object; other bodies are discarded
	Upload  bool       // its handler reads the body itself, with [Exchange.Receive]
	MaxBody int64      // the largest body in bytes; 0: 16 KiB
	Level   slog.Level // of the log line of a 200; the zero Level is info
}

// Known is who sends a request without a guard.
type Known struct {
	Account site.AccountID // among whose requests it has its turn; empty: it is a stranger's
	Device  string         // among its devices; empty: it is not known by that
	Fresh   bool           // it is the login of a stranger whose address has not failed lately
}

// resource is one pattern with the routes of its methods.
type resource struct {
	pattern string
	routes  map[string]*Route // by method, "" for every other
}

// Handler returns the handler of a listener that serves the routes of some tables; tls
// is stated in log lines. Nothing of net/http answers besides it: what no table names is
// 404 or 405 in JSON. It panics if a pattern is wrong, as [http.ServeMux] does.
func (k *Kit) Handler(tls bool, tables ...[]Route) http.Handler {
	resources := map[string]*resource{}
	for _, rt := range slices.Concat(tables...) {
		res, ok := resources[rt.Pattern]
		if !ok {
			res = &resource{pattern: rt.Pattern, routes: make(map[string]*Route)}
			resources[rt.Pattern] = res
		}
		res.routes[rt.Method] = &rt
		if rt.Method == http.MethodGet { // net/http omits the body of a HEAD
			res.routes[http.MethodHead] = &rt
		}
	}
	mux := http.NewServeMux()
	for pattern, res := range resources {
		mux.Handle(pattern, res)
	}
	if resources["/"] == nil {
		mux.HandleFunc("/", unknownPath)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := k.begin(w, r, tls)
		defer x.finish()
		switch {
		case !x.enter():
		case !tls && x.foreign():
			x.fail(errHost())
		case !canonical(r.URL.EscapedPath()):
			x.fail(NotFound())
		default:
			mux.ServeHTTP(x, r)
		}
	})
}

// ServeHTTP implements [http.Handler]. Only [Kit.Handler] calls it, so w is an Exchange.
func (res *resource) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	x := w.(*Exchange)
	x.pattern = res.pattern
	rt := cmp.Or(res.routes[x.Req.Method], res.routes[""])
	if rt == nil {
		x.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(res.routes)), ", "))
		x.fail(Refuse(http.StatusMethodNotAllowed, "Method not allowed"))
		return
	}
	x.level = rt.Level
	if err := x.run(rt); err != nil {
		x.calm()
		x.fail(err)
	}
}

// run serves a route.
func (x *Exchange) run(rt *Route) error {
	x.guard = rt.Guard
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.readBody(rt); err != nil {
		return err
	}
	if rt.Known != nil {
		x.known = rt.Known(&x.Req)
	}
	if rt.Door {
		x.opening()
		return rt.Serve(x)
	}
	changes := rt.Method != http.MethodGet && rt.Method != "" // without a body too
	crowded := changes && !x.change()
	if crowded && x.class() == strangers {
		return x.crowded()
	}
	if err := x.awaitTurn(); err != nil {
		return err
	}
	if crowded {
		x.hurry()
	}
	if changes { // the body may have come slowly
		if err := x.admit(); err != nil {
			return err
		}
	}
	return rt.Serve(x)
}

// admit asks the guard of the route who sends the request.
func (x *Exchange) admit() (err error) {
	if x.guard != nil {
		x.Req.Actor, err = x.guard(x)
	}
	return err
}

// Admitted reports whether the guard of the route still admits the caller, for an answer
// that takes long. Quick.
func (x *Exchange) Admitted() bool {
	if x.guard == nil {
		return true
	}
	_, err := x.guard(x)
	return err == nil
}

func unknownPath(w http.ResponseWriter, _ *http.Request) { w.(*Exchange).fail(NotFound()) }

// NotFound returns the error of a path that does not exist.
func NotFound() error { return Refuse(http.StatusNotFound, "Not found") }

// canonical reports whether p has no empty and no dot segment: net/http would redirect
// it. Also false for the "*" of OPTIONS and the empty path of CONNECT.
func canonical(p string) bool {
	clean := path.Clean(p)
	return strings.HasPrefix(p, "/") && (p == clean || (p == clean+"/" && clean != "/"))
}
