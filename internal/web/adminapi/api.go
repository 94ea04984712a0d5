package adminapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// Access keeps accounts, sessions and grants; package access satisfies it. Safe
// for concurrent use. The kinds of its errors reach the caller as they are.
type Access interface {
	// Authenticate returns who holds an access token. Quick. Error: Unauthenticated.
	Authenticate(access site.Secret) (site.Actor, error)

	Accounts() []site.Account // sorted by e-mail
	AccountByEmail(email string) (site.Account, error)
	AccountByID(id site.AccountID) (site.Account, bool)
	AddAccount(ctx context.Context, by site.Actor, email string, password site.Secret, admin bool) (site.Account, error)
	RemoveAccount(ctx context.Context, by site.Actor, email string) error
	SetPassword(ctx context.Context, by site.Actor, email string, password site.Secret) error
	SetAdmin(ctx context.Context, by site.Actor, email string, admin bool) error
	Sessions(email string) ([]site.Session, error)
	RevokeAccount(ctx context.Context, by site.Actor, email string) (ended int, err error)

	Grants() []site.Grant // sorted by e-mail and station
	PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error)
	RemoveGrant(ctx context.Context, by site.Actor, account site.AccountID, station site.StationID) error
}

// Stations keeps stations; package station satisfies it. Safe for concurrent use.
// The kinds of its errors reach the caller as they are.
type Stations interface {
	Stations() []site.Station // sorted by id
	Station(id site.StationID) (site.Station, bool)
	State(id site.StationID) (site.StationState, bool)
	Firmware(id site.StationID) string
	Enrol(ctx context.Context, by site.Actor, r station.EnrolRequest) (station.Enrolled, error)
	Update(ctx context.Context, by site.Actor, id site.StationID, name string, locks int) (changed bool, err error)
	Rotate(ctx context.Context, by site.Actor, id site.StationID) (site.Secret, error)
	Remove(ctx context.Context, by site.Actor, id site.StationID) error

	// Latest, EventsSince and Subscribe let a stream follow changes without a hole.
	Latest() uint64
	EventsSince(after uint64, id site.StationID) (events []station.Event, gap bool)
	Subscribe() (wake <-chan struct{}, cancel func())
}

// Unlocker opens locks; package unlock satisfies it. Safe for concurrent use.
type Unlocker interface {
	Unlock(ctx context.Context, r unlock.Request) (unlock.Answer, error)
}

// Journal reads the journal; package journal satisfies it. Safe for concurrent
// use.
type Journal interface {
	Read(ctx context.Context, q journal.Query) ([]site.Record, error)
	Latest() uint64
	Subscribe() (wake <-chan struct{}, cancel func())
	Verify(ctx context.Context) (journal.Verdict, error)
	Testify(ctx context.Context, witnesses []journal.Witness) ([]journal.Testimony, error)
}

// Provisioner applies sites; package provision satisfies it. Safe for concurrent
// use. The result of a failed Apply holds what was done before it failed.
type Provisioner interface {
	Apply(ctx context.Context, by site.Actor, s sitefile.Site, o sitefile.Options) (sitefile.Result, error)
}

// Parcel is the data of the gateway, ready to be written as an archive in clear text;
// package backup satisfies it. Close is called in any case.
type Parcel interface {
	Write(w io.Writer) error
	Close() error
}

// Timekeeper keeps the clock; package gateway satisfies it. Safe for concurrent use.
type Timekeeper interface {
	Clock() Clock
	// AcceptClock accepts the system's time and records that; Conflict where the clock
	// is ahead of it.
	AcceptClock(ctx context.Context, by site.Actor) error
	// ResetClock sets the clock and its floor back to the system's time and records
	// that. Conflict where the clock is not ahead of it, Unavailable where that cannot
	// be stored; then nothing has changed.
	ResetClock(ctx context.Context, by site.Actor) error
}

// Config is what an [API] needs; everything is required.
type Config struct {
	Access      Access
	Stations    Stations
	Unlocker    Unlocker
	Journal     Journal
	Provisioner Provisioner
	Timekeeper  Timekeeper
	Status      func(context.Context) (Status, error) // safe for concurrent use
	// Database checks the pages of the database, which takes a while; one call at a time.
	Database func(context.Context) (Database, error)
	// Backup records that by takes a backup, and creates it; one call at a time.
	// Unavailable when there is no room or the storage fails.
	Backup func(ctx context.Context, by site.Actor) (Parcel, error)
	Logger *slog.Logger
}

// API has the handlers of the admin API. Safe for concurrent use.
type API struct {
	Config
	checking  slot // a check of the whole journal or database
	backingUp slot // a backup
}

// New returns an API; it starts nothing.
func New(cfg Config) (*API, error) {
	if cfg.Access == nil || cfg.Stations == nil || cfg.Unlocker == nil || cfg.Journal == nil || cfg.Provisioner == nil ||
		cfg.Timekeeper == nil || cfg.Status == nil || cfg.Database == nil || cfg.Backup == nil || cfg.Logger == nil {
		return nil, errors.New("the admin API needs access, stations, an unlocker, a journal, a provisioner, a timekeeper, a status, a database, a backup and a logger")
	}
	return &API{Config: cfg, checking: make(slot, 1), backingUp: make(slot, 1)}, nil
}

// The bounds of a connection to the admin socket.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = time.Minute
	maxHeader     = 16 << 10 // bytes
)

// NewServer returns a server for the admin socket, to be used with [Listen]. When it is
// shut down, the streams of k end and other requests are finished.
func (a *API) NewServer(k *kit.Kit) *http.Server {
	server := &http.Server{
		Handler: k.Handler(false, a.Routes(Socket)), ConnContext: ConnContext,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.Logger.Handler(), slog.LevelError),
	}
	server.RegisterOnShutdown(k.Drain)
	return server
}

// slot is for one at a time; its capacity is 1.
type slot chan struct{}

// acquire acquires the slot if it is free.
func (s slot) acquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slot) release() { <-s }
