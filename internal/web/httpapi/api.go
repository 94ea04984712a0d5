package httpapi

import (
	"context"
	"net/netip"

	"gatehouse/internal/access"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Access knows who sends a request and what they may do; package access satisfies it.
// Every method is safe for concurrent use.
type Access interface {
	// Login makes a session. Errors: Unauthenticated, Throttled, Unavailable.
	Login(ctx context.Context, email string, password site.Secret, from access.Client) (access.Tokens, error)
	// Recognise returns what is known of the client of a login. Quick.
	Recognise(email string, from access.Client) access.Recognised
	// Refresh returns a new access token. Errors: Unauthenticated.
	Refresh(ctx context.Context, refresh site.Secret) (site.Secret, error)
	// Authenticate returns who holds an access token or an integration token. Quick.
	// Errors: Unauthenticated.
	Authenticate(token site.Secret) (site.Actor, error)
	// AuthenticateCookie returns who holds the cookie of a session. Quick. Errors:
	// Unauthenticated.
	AuthenticateCookie(cookie site.Secret) (site.Actor, error)
	// AuthenticateToRevoke is Authenticate for the revocations alone: it also takes the
	// token of a session whose end could not be stored yet. Errors: Unauthenticated.
	AuthenticateToRevoke(token site.Secret) (site.Actor, error)
	// RefreshToRevoke is the same for a refresh token. Errors: Unauthenticated.
	RefreshToRevoke(refresh site.Secret) (site.Actor, error)
	// CookieToRevoke is the same for the cookie of a session. Errors: Unauthenticated.
	CookieToRevoke(cookie site.Secret) (site.Actor, error)
	// Revoke ends the session of an actor, or with all every one of its account. Errors:
	// Unauthenticated, Unavailable.
	Revoke(ctx context.Context, actor site.Actor, all bool) error
	// Permits reports whether account may unlock station right now. Quick.
	Permits(account site.AccountID, station site.StationID) bool
	// Granted lists the stations that account may see right now, sorted.
	Granted(account site.AccountID) []site.StationID
	// Closed lists the stations that account may use again later, sorted.
	Closed(account site.AccountID) []site.Closed
	// MayReadAll reports whether these are all, also those that are added later. Quick.
	MayReadAll(account site.AccountID) bool
	// MayRead reports whether account may see the state of station right now: whatever it
	// may unlock, and for an integration token what its scope says. Quick.
	MayRead(account site.AccountID, station site.StationID) bool
}

// Stations knows the stations; package station satisfies it. Every method is quick
// and safe for concurrent use.
type Stations interface {
	// ByToken finds a station by its token.
	ByToken(token site.Secret) (site.Station, bool)
	// Station finds a station by its id.
	Station(id site.StationID) (site.Station, bool)
	// Stations lists the stations, sorted by id.
	Stations() []site.Station
	// State returns a copy of what is known of a station.
	State(id site.StationID) (site.StationState, bool)
	// EventsSince returns the events of one station after a number, oldest first; gap
	// when some after it are not kept any more.
	EventsSince(after uint64, filter site.StationID) (events []station.Event, gap bool)
	// Latest returns the number of the newest event of all stations.
	Latest() uint64
	// Adopted returns the number of the newest event of an earlier start of the process,
	// and whether its events go on in this one.
	Adopted(boot site.BootID) (latest uint64, ok bool)
	// Subscribe returns a channel that wakes at every event, and when a station was
	// changed or removed, until cancel is called.
	Subscribe() (wake <-chan struct{}, cancel func())
	// SubscribeTo is Subscribe for one station.
	SubscribeTo(id site.StationID) (wake <-chan struct{}, cancel func())
}

// Unlocker opens doors; package unlock satisfies it. Both methods are safe for
// concurrent use.
type Unlocker interface {
	// Unlock opens a lock and returns the outcome. Errors: NotFound for everything that
	// the actor may not use, with the same work whatever the reason; Invalid,
	// Throttled, Timeout.
	Unlock(ctx context.Context, req unlock.Request) (unlock.Answer, error)
	// Command returns the state of a command of this actor's account. Errors: NotFound.
	Command(ctx context.Context, actor site.Actor, id site.CommandID) (unlock.Answer, error)
}

// Setup creates the first administrator; package setup satisfies it. Both methods are
// safe for concurrent use.
type Setup interface {
	// Open reports whether there is no account yet. Quick.
	Open() bool
	// Begin creates the account for a client at remote that knows the setup code.
	// Errors: NotFound once there is an account, Forbidden for a wrong code, Throttled
	// for a wrong one after too many, Invalid, Unavailable, Timeout.
	Begin(ctx context.Context, remote netip.Addr, code site.Secret, email string, password site.Secret) (site.Account, error)
}

// Config is what an API needs; everything but Setup and Name must be given.
type Config struct {
	Access   Access
	Stations Stations
	Unlocker Unlocker
	Clock    site.Clock
	Health   *health.Registry
	Metrics  *metric.Registry
	Gateway  site.GatewayID
	Boot     site.BootID // part of the ids of events
	Setup    Setup       // nil: there is nothing to set up
	Name     string      // of the gateway on the network
}

// API has the handlers of /v1 and /local/v1. Safe for concurrent use.
type API struct {
	Config
	listed encodings
}

// New returns an API; it starts nothing.
func New(cfg Config) *API { return &API{Config: cfg} }
