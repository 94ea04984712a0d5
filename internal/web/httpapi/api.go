package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"

	"gatehouse/internal/access"
	"gatehouse/internal/board/admission"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Access says who asks and who may; package access satisfies it. Every method is
// safe for concurrent use.
type Access interface {
	// Login makes a session. Errors: Unauthenticated, Throttled, Unavailable.
	Login(ctx context.Context, email string, password site.Secret, remote netip.Addr) (access.Tokens, error)
	// Refresh gives a new access token. Errors: Unauthenticated.
	Refresh(ctx context.Context, refresh site.Secret) (site.Secret, error)
	// Authenticate gives who holds an access token. Quick. Errors: Unauthenticated.
	Authenticate(token site.Secret) (site.Actor, error)
	// AuthenticateToRevoke is Authenticate for the revocations alone: it also takes the
	// token of a session whose end could not be stored yet. Errors: Unauthenticated.
	AuthenticateToRevoke(token site.Secret) (site.Actor, error)
	// RevokeByRefresh ends the session of a refresh token, RevokeBySession that of an
	// actor. Errors: Unauthenticated, Unavailable.
	RevokeByRefresh(ctx context.Context, refresh site.Secret) error
	RevokeBySession(ctx context.Context, actor site.Actor) error
	// RevokeAllByRefresh ends every session of the account of a refresh token,
	// RevokeAllByActor of that of an actor. Errors: Unauthenticated, Unavailable.
	RevokeAllByRefresh(ctx context.Context, refresh site.Secret) error
	RevokeAllByActor(ctx context.Context, actor site.Actor) error
	// Permits reports whether a grant of account for station holds right now. Quick.
	Permits(account site.AccountID, station site.StationID) bool
	// Granted lists the stations that account may use right now, sorted.
	Granted(account site.AccountID) []site.StationID
}

// Stations says what is there; package station satisfies it. Every method is quick
// and safe for concurrent use.
type Stations interface {
	// ByToken finds a station by its token.
	ByToken(token site.Secret) (site.Station, bool)
	// Station finds a station by its id.
	Station(id site.StationID) (site.Station, bool)
	// State gives a copy of what is known of a station.
	State(id site.StationID) (site.StationState, bool)
	// EventsSince gives the events of one station after a number, oldest first; gap
	// when some after it are not kept any more.
	EventsSince(after uint64, filter site.StationID) (events []station.Event, gap bool)
	// Latest gives the number of the newest event of all stations.
	Latest() uint64
	// Subscribe gives a channel that wakes at every event until cancel is called.
	Subscribe() (wake <-chan struct{}, cancel func())
}

// Unlocker opens doors; package unlock satisfies it. Both methods are safe for
// concurrent use.
type Unlocker interface {
	// Unlock opens a lock and says how it ended. Errors: NotFound for everything that
	// the actor may not use, with the same work whatever the reason; Invalid,
	// Throttled, Timeout.
	Unlock(ctx context.Context, req unlock.Request) (unlock.Answer, error)
	// Command says how a command of this actor's account stands. Errors: NotFound.
	Command(ctx context.Context, actor site.Actor, id site.CommandID) (unlock.Answer, error)
}

// Setup makes the first administrator; package setup satisfies it. Both methods are
// safe for concurrent use.
type Setup interface {
	// Open reports whether nobody has an account yet. Quick.
	Open() bool
	// Begin creates the account for a client at remote that knows the setup code.
	// Errors: NotFound once there is an account, Forbidden for a wrong code, Throttled
	// for a wrong one after too many, Invalid, Unavailable, Timeout.
	Begin(ctx context.Context, remote netip.Addr, code site.Secret, email string, password site.Secret) (site.Account, error)
}

// Config is what an API needs; everything but Admin and Setup must be given.
type Config struct {
	Access   Access
	Stations Stations
	Unlocker Unlocker
	Health   *health.Registry
	Metrics  *metric.Registry
	Logger   *slog.Logger
	Admin    http.Handler // serves /admin/v1/ on listeners that offer it; may be nil
	Boot     site.BootID  // part of the ids of events
	Setup    Setup        // nil: there is nothing to set up

	// Handshakes wait while a door is being opened; nil: there are none.
	Handshakes *admission.Handshakes
}

// API answers HTTP requests. Safe for concurrent use.
type API struct {
	access   Access
	stations Stations
	unlocker Unlocker
	health   *health.Registry
	metrics  *metric.Registry
	logger   *slog.Logger
	admin    http.Handler
	boot     site.BootID
	setup    Setup

	streams    *admission.Quota[site.AccountID]
	requests   *admission.Crowd // the requests in flight
	handshakes *admission.Handshakes
	errorLog   *rate.Limiter // bounds the log lines that failing requests can cause
	exchanges  sync.Pool     // of *exchange
	scrape     sync.Mutex    // one scrape at a time, because each takes memory
	draining   chan struct{} // closed by Drain
	drain      sync.Once
}

// New gives an API; it starts nothing. It registers a gauge in cfg.Metrics, so one
// registry serves one API.
func New(cfg Config) (*API, error) {
	if cfg.Access == nil || cfg.Stations == nil || cfg.Unlocker == nil || cfg.Health == nil ||
		cfg.Metrics == nil || cfg.Logger == nil || cfg.Boot == "" {
		return nil, errors.New("the HTTP interface needs access, stations, an unlocker, health, metrics, a logger and a boot id")
	}
	a := &API{
		access: cfg.Access, stations: cfg.Stations, unlocker: cfg.Unlocker, health: cfg.Health,
		metrics: cfg.Metrics, logger: cfg.Logger, admin: cfg.Admin, boot: cfg.Boot, setup: cfg.Setup,
		requests: admission.New(admission.Limits{Total: MaxRequests}), handshakes: cfg.Handshakes,
		streams: admission.NewQuota[site.AccountID](maxStreams, maxStreamsPerAccount), errorLog: newErrorLimiter(), draining: make(chan struct{}),
	}
	a.exchanges.New = func() any { return &exchange{api: a} }
	cfg.Metrics.Gauge("gatehouse_event_streams", func() float64 { return float64(a.streams.Open()) })
	return a, nil
}

// Drain begins the end, for servers that will be shut down a moment later: event
// streams end, and every answer from now on tells its client to come back over a new
// connection, which the successor of this process takes. So no request falls into the
// gap where one side closes an idle connection and the other sends on it. May be
// called again.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }

// isDraining reports whether Drain has been called.
func (a *API) isDraining() bool {
	select {
	case <-a.draining:
		return true
	default:
		return false
	}
}

// ListenerOptions say what one listener offers beside /v1, /local/v1, /healthz and
// /readyz.
type ListenerOptions struct {
	Metrics bool // /metrics
	Admin   bool // /admin/v1/
	TLS     bool // stated in the log lines of its requests

	// Authority gives the certificate of the gateway's own authority as PEM, or nil where
	// there is none; it is served as /ca.crt. Nil: there is no /ca.crt.
	Authority func() []byte
}

// Handler gives the handler of one listener. Nothing of net/http answers past it:
// what the route table does not name is 404 or 405 in JSON.
func (a *API) Handler(options ListenerOptions) http.Handler {
	return &listenerHandler{api: a, mux: a.mux(options), tls: options.TLS, authority: options.Authority}
}
