package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// Prefix is the path under which the admin API lies.
const Prefix = "/admin/v1"

const (
	maxApply     = 4 << 20          // bytes; room for the largest site file as JSON, with its lines
	briefly      = 25 * time.Second // what an ordinary request may take; its client waits 30 s
	lengthily    = 30 * time.Minute // what applying a site, or checking the journal or the database, may take
	writeTimeout = 10 * time.Second // how long a client may take to receive an answer
	retry        = 10 * time.Second // when a client may retry what another one is doing
)

// request is a request of an administrator.
type request struct{ kit.Request }

// handler answers a request with a value as JSON.
type handler func(*request) (any, error)

// Routes returns the route table of a door.
func (a *API) Routes(door Door) []kit.Route {
	const get, post, put, patch, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	const ok, created, none = http.StatusOK, http.StatusCreated, http.StatusNoContent
	routes := []kit.Route{
		{Method: get, Pattern: "/status", Serve: brief(ok, a.status)},

		{Method: get, Pattern: "/accounts", Serve: brief(ok, a.accounts)},
		{Method: post, Pattern: "/accounts", Serve: brief(created, reads(a.addAccount)), JSON: true},
		{Method: patch, Pattern: "/accounts/{email}", Serve: brief(ok, reads(a.changeAccount)), JSON: true},
		{Method: remove, Pattern: "/accounts/{email}", Serve: brief(none, a.removeAccount)},
		{Method: put, Pattern: "/accounts/{email}/password", Serve: brief(ok, reads(a.setPassword)), JSON: true},
		{Method: get, Pattern: "/accounts/{email}/sessions", Serve: brief(ok, a.sessions)},
		{Method: post, Pattern: "/accounts/{email}/revoke", Serve: brief(ok, a.revoke)},

		{Method: get, Pattern: "/stations", Serve: brief(ok, a.stations)},
		{Method: post, Pattern: "/stations", Serve: brief(created, reads(a.addStation)), JSON: true},
		{Method: get, Pattern: "/stations/watch", Serve: a.watch},
		{Method: get, Pattern: "/stations/{station}", Serve: brief(ok, a.station)},
		{Method: patch, Pattern: "/stations/{station}", Serve: brief(ok, reads(a.changeStation)), JSON: true},
		{Method: remove, Pattern: "/stations/{station}", Serve: brief(none, a.removeStation)},
		{Method: post, Pattern: "/stations/{station}/rotate", Serve: brief(ok, a.rotate)},
		{Method: post, Pattern: "/stations/{station}/locks/{lock}/unlock", Serve: a.unlock},

		{Method: get, Pattern: "/grants", Serve: brief(ok, a.grants)},
		{Method: put, Pattern: "/grants/{email}/{station}", Serve: brief(ok, reads(a.grant)), JSON: true},
		{Method: remove, Pattern: "/grants/{email}/{station}", Serve: brief(none, a.ungrant)},

		{Method: post, Pattern: "/apply", Serve: long(reads(a.apply)), JSON: true, MaxBody: maxApply},

		{Method: get, Pattern: "/journal", Serve: a.journal},
		{Method: get, Pattern: "/journal/verify", Serve: long(a.verify)},
		{Method: post, Pattern: "/journal/witnesses", Serve: long(reads(a.testify)), JSON: true, MaxBody: maxApply},

		{Method: get, Pattern: "/database", Serve: long(a.database)},

		{Method: get, Pattern: "/clock", Serve: brief(ok, a.clock)},
		{Method: post, Pattern: "/clock/accept", Serve: brief(ok, a.acceptClock)},
		{Method: post, Pattern: "/clock/reset", Serve: brief(ok, a.resetClock)},
	}
	if door == Socket { // it is in clear text and must not leave this machine
		routes = append(routes, kit.Route{Method: get, Pattern: "/backup", Serve: a.backup})
	}
	for i := range routes {
		rt := &routes[i]
		rt.Pattern, rt.Guard, rt.Level = Prefix+rt.Pattern, a.guard(door), slog.LevelDebug
	}
	return routes
}

// reads returns a handler that reads the body of its request.
func reads[T any](handle func(*request, T) (any, error)) handler {
	return func(r *request) (any, error) {
		in, err := kit.Decode[T](&r.Request)
		if err != nil {
			return nil, err
		}
		return handle(r, in)
	}
}

func brief(status int, handle handler) kit.Handler { return within(briefly, status, handle) }

func long(handle handler) kit.Handler { return within(lengthily, http.StatusOK, handle) }

// within bounds the time of a handler, which may outlive its request: it uses a copy of
// the request.
func within(limit time.Duration, status int, handle handler) kit.Handler {
	return func(x *kit.Exchange) error {
		ctx, cancel := context.WithTimeout(x.Req.Context(), limit)
		defer cancel()
		x.Extend(limit + writeTimeout)
		r := &request{x.Req}
		r.Request.Request = r.WithContext(ctx)
		answer, err := kit.Await(ctx, func(context.Context) (any, error) { return handle(r) })
		if err != nil {
			return err
		}
		return x.Encode(status, answer)
	}
}

// email returns the e-mail address of the path; the services check it.
func (r *request) email() string { return r.PathValue("email") }

// station returns the station of the path.
func (r *request) station() (site.StationID, error) { return stationOf(r.PathValue("station")) }

func stationOf(text string) (site.StationID, error) {
	id, err := site.ParseStationID(text)
	if err != nil {
		return 0, fault.New(fault.Invalid, err.Error())
	}
	return id, nil
}
