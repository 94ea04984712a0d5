package adminapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/calendar"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// Prefix is the path under which the admin API lies.
const Prefix = "/admin/v1"

const (
	maxApply     = 4 << 20          // bytes; room for the largest site file as JSON, with its lines
	maxMembers   = 256 << 10        // bytes; room for thousands of members of a group
	briefly      = 25 * time.Second // what an ordinary request may take; its client waits 30 s
	lengthily    = 30 * time.Minute // what applying a site, or checking the journal or the database, may take
	writeTimeout = 10 * time.Second // how long a client may take to receive an answer
	retry        = 10 * time.Second // when a client may retry what another one is doing
)

// request is a request of an administrator, with what its path names. Where the path
// names none, account, station and lock are zero.
type request struct {
	kit.Request
	account site.Account
	station site.Station
	lock    site.LockID
}

// find finds what the path of a request names; beside an error, what it has found before.
func (a *API) find(x *kit.Exchange) (r *request, err error) {
	r = &request{Request: x.Req}
	if email := x.Req.PathValue("email"); email != "" {
		if r.account, err = a.account(email); err != nil {
			return r, err
		}
	}
	if text := x.Req.PathValue("station"); text != "" {
		if r.station, err = a.enrolled(text); err != nil {
			return r, err
		}
	}
	if text := x.Req.PathValue("lock"); text != "" {
		if r.lock, err = site.ParseLockID(text); err != nil {
			return r, fault.New(fault.Invalid, err.Error())
		}
		if int(r.lock) > r.station.Locks {
			return r, fault.New(fault.NotFound, fmt.Sprintf("Station %s has no %s: it has %d locks", r.station.ID, r.lock, r.station.Locks))
		}
	}
	return r, nil
}

// account returns the account of that e-mail address.
func (a *API) account(email string) (site.Account, error) {
	account, err := a.Access.AccountByEmail(email)
	if err != nil {
		return account, fault.New(fault.NotFound, "There is no account "+site.Clip(email))
	}
	return account, nil
}

// enrolled returns the station of that id.
func (a *API) enrolled(text string) (site.Station, error) {
	id, err := site.ParseStationID(text)
	if err != nil {
		return site.Station{}, fault.New(fault.Invalid, err.Error())
	}
	s, ok := a.Stations.Station(id)
	if !ok {
		return s, errNotEnrolled(id)
	}
	return s, nil
}

func errNotEnrolled(id site.StationID) error {
	return fault.New(fault.NotFound, fmt.Sprintf("Station %s is not enrolled", id))
}

// handler returns the value to answer with as JSON; it has no meaning beside an error.
type handler func(*request) (any, error)

// reads returns a handler that decodes the body of its request.
func reads[T any](handle func(*request, T) (any, error)) handler {
	return func(r *request) (any, error) {
		in, err := kit.Decode[T](&r.Request)
		if err != nil {
			return nil, err
		}
		return handle(r, in)
	}
}

// Routes returns the route table of a door.
func (a *API) Routes(door Door) []kit.Route {
	const get, post, patch, remove = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	const ok, created, none = http.StatusOK, http.StatusCreated, http.StatusNoContent
	routes := slices.Concat(a.accessRoutes(), a.updateRoutes(), []kit.Route{
		{Method: get, Pattern: "/status", Serve: a.brief(ok, a.status)},

		{Method: get, Pattern: "/stations", Serve: a.brief(ok, a.stations)},
		{Method: post, Pattern: "/stations", Serve: a.brief(created, reads(a.addStation)), JSON: true},
		{Method: get, Pattern: "/stations/watch", Serve: a.watch},
		{Method: get, Pattern: "/stations/{station}", Serve: a.brief(ok, a.showStation)},
		{Method: patch, Pattern: "/stations/{station}", Serve: a.brief(ok, reads(a.changeStation)), JSON: true},
		{Method: remove, Pattern: "/stations/{station}", Serve: a.brief(none, a.removeStation)},
		{Method: get, Pattern: "/stations/{station}/battery", Serve: a.brief(ok, a.battery)},
		{Method: post, Pattern: "/stations/{station}/rotate", Serve: a.brief(ok, a.rotate)},
		{Method: post, Pattern: "/stations/{station}/locks/{lock}/unlock", Serve: a.unlock, Door: true},

		{Method: post, Pattern: "/qr", Serve: a.brief(ok, reads(a.drawQR)), JSON: true},

		{Method: post, Pattern: "/apply", Serve: a.long(reads(a.apply)), JSON: true, MaxBody: maxApply},

		{Method: get, Pattern: "/journal", Serve: a.journal},
		{Method: get, Pattern: "/journal/verify", Serve: a.long(a.verify)},
		{Method: post, Pattern: "/journal/witnesses", Serve: a.long(reads(a.testify)), JSON: true, MaxBody: maxApply},

		{Method: get, Pattern: "/database", Serve: a.long(a.database)},

		{Method: post, Pattern: "/backup", Serve: a.sealedBackup, JSON: true},
		{Method: post, Pattern: "/restart", Serve: a.brief(http.StatusAccepted, a.restart)},

		{Method: get, Pattern: "/clock", Serve: a.brief(ok, a.clock)},
		{Method: post, Pattern: "/clock/accept", Serve: a.brief(ok, a.acceptClock)},
		{Method: post, Pattern: "/clock/reset", Serve: a.brief(ok, a.resetClock)},
	})
	if door == Socket { // it is in clear text and must not leave this machine
		routes = append(routes, kit.Route{Method: get, Pattern: "/backup", Serve: a.backup})
	}
	for i := range routes {
		rt := &routes[i]
		rt.Pattern, rt.Guard, rt.Level = Prefix+rt.Pattern, a.guard(door), slog.LevelDebug
	}
	return append(routes, kit.Route{Method: get, Pattern: Prefix + "/openapi.json", Serve: kit.Document("application/json", openAPI), Level: slog.LevelDebug})
}

// accessRoutes returns the part of the table that is about who may do what, and when.
func (a *API) accessRoutes() []kit.Route {
	const get, post, put, patch, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	const ok, created, none = http.StatusOK, http.StatusCreated, http.StatusNoContent
	return []kit.Route{
		{Method: get, Pattern: "/accounts", Serve: a.brief(ok, a.accounts)},
		{Method: post, Pattern: "/accounts", Serve: a.brief(created, reads(a.addAccount)), JSON: true},
		{Method: patch, Pattern: "/accounts/{email}", Serve: a.brief(ok, reads(a.changeAccount)), JSON: true},
		{Method: remove, Pattern: "/accounts/{email}", Serve: a.brief(none, a.removeAccount)},
		{Method: put, Pattern: "/accounts/{email}/password", Serve: a.brief(ok, reads(a.setPassword)), JSON: true},
		{Method: get, Pattern: "/accounts/{email}/sessions", Serve: a.brief(ok, a.sessions)},
		{Method: remove, Pattern: "/accounts/{email}/sessions/{session}", Serve: a.brief(none, a.endSession)},
		{Method: post, Pattern: "/accounts/{email}/revoke", Serve: a.brief(ok, a.revoke)},

		{Method: post, Pattern: "/sessions/end-all", Serve: a.long(a.endAll)},

		{Method: get, Pattern: "/grants", Serve: a.brief(ok, a.grants)},
		{Method: put, Pattern: "/grants/{who}/{what}", Serve: a.brief(ok, reads(a.grant)), JSON: true},
		{Method: remove, Pattern: "/grants/{who}/{what}", Serve: a.brief(none, a.ungrant)},

		{Method: get, Pattern: "/groups", Serve: a.brief(ok, a.groups)},
		{Method: patch, Pattern: "/groups/{group}", Serve: a.brief(ok, reads(a.changeGroup)), JSON: true, MaxBody: maxMembers},
		{Method: remove, Pattern: "/groups/{group}", Serve: a.brief(none, a.removeGroup)},

		{Method: get, Pattern: "/holidays", Serve: a.brief(ok, a.holidays)},
		{Method: post, Pattern: "/holidays", Serve: a.brief(ok, reads(a.addHolidays)), JSON: true, MaxBody: 2 * calendar.MaxSize},
		{Method: remove, Pattern: "/holidays/{holiday}", Serve: a.brief(none, a.removeHoliday)},

		{Method: get, Pattern: "/tokens", Serve: a.brief(ok, a.tokens)},
		{Method: post, Pattern: "/tokens", Serve: a.brief(created, reads(a.addToken)), JSON: true},
		{Method: remove, Pattern: "/tokens/{name}", Serve: a.brief(none, a.removeToken)},
	}
}

func (a *API) brief(status int, handle handler) kit.Handler { return a.within(briefly, status, handle) }

func (a *API) long(handle handler) kit.Handler { return a.within(lengthily, http.StatusOK, handle) }

// within bounds the time of a handler, which may outlive its request: it uses a copy of
// the request.
func (a *API) within(limit time.Duration, status int, handle handler) kit.Handler {
	return func(x *kit.Exchange) error {
		r, err := a.find(x)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(x.Req.Context(), limit)
		defer cancel()
		x.Extend(limit + writeTimeout)
		r.Request.Request = r.WithContext(ctx)
		answer, err := kit.Await(ctx, func(context.Context) (any, error) { return handle(r) })
		if err != nil {
			return err
		}
		return x.Encode(status, answer)
	}
}

func (a *API) restart(r *request) (any, error) {
	return Restarting{a.Status().Boot}, a.Restart(r.Actor)
}

func (a *API) apply(r *request, in ApplyRequest) (any, error) {
	return a.Apply(r.Context(), r.Actor, in.Site, in.Options)
}
