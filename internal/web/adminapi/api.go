package adminapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// Journal reads the journal; package journal satisfies it. Safe for concurrent
// use.
type Journal interface {
	Read(ctx context.Context, q journal.Query) ([]site.Record, error)
	Latest() uint64
	Subscribe() (wake <-chan struct{}, cancel func())
	Verify(ctx context.Context) (journal.Verdict, error)
	Testify(ctx context.Context, witnesses []journal.Witness) ([]journal.Testimony, error)
}

// Parcel is the data of the gateway, ready to be written as an archive; package backup
// satisfies it. Close is called in any case.
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
	Gateway    site.GatewayID
	Access     *access.Service
	Stations   *station.Service
	Journal    Journal
	Timekeeper Timekeeper
	Clock      site.Clock
	Status     func() Status // safe for concurrent use
	// Unlock opens a lock; see package unlock. Safe for concurrent use.
	Unlock func(ctx context.Context, r unlock.Request) (unlock.Answer, error)
	// Subscribed reports whether a station is connected and subscribed to its commands. Safe
	// for concurrent use.
	Subscribed func(site.StationID) bool
	// Apply applies a site; see package provision. Safe for concurrent use. After an error
	// nothing has changed.
	Apply func(ctx context.Context, by site.Actor, s sitefile.Site, o sitefile.Options) (sitefile.Result, error)
	// Database checks the pages of the database, which takes a while; one call at a time.
	Database func(context.Context) (Database, error)
	// Backup records that by takes a backup, and creates it; one call at a time.
	// Unavailable when there is no room or the storage fails.
	Backup func(ctx context.Context, by site.Actor) (Parcel, error)
	// SealedBackup is Backup, encrypted with a passphrase, and for an account without the
	// gateway's own certificates; Invalid for a weak passphrase.
	SealedBackup func(ctx context.Context, by site.Actor, passphrase site.Secret) (Parcel, error)
	// EndAll ends every session and integration token, also that of by, and makes a new key for
	// access tokens. It takes effect at once; Unavailable where it is not stored yet.
	EndAll func(ctx context.Context, by site.Actor) (AllEnded, error)
	// Restart has the process stop in order, on behalf of by, so that its service manager
	// starts it again; it does not wait for that. Conflict where none would.
	Restart func(by site.Actor) error
	Updates Updates
	Uploads Uploads
	Zone    func() *time.Location // of the site, for sentences
	Logger  *slog.Logger
}

// API has the handlers of the admin API. Safe for concurrent use.
type API struct {
	Config
	checking  sync.Mutex // held by a check of the whole journal or database
	backingUp sync.Mutex // held by a backup over the socket
	sealing   sync.Mutex // held by a backup over the web, whose reader may be slow
	upload    upload
}

// New returns an API; it starts nothing.
func New(cfg Config) *API { return &API{Config: cfg} }

// idleTimeout is how long a connection to the admin socket may wait for a request.
const idleTimeout = time.Minute

// NewServer returns a server for the admin socket, to be used with [Listen]. When it is
// shut down, the streams of k end and other requests are finished.
func (a *API) NewServer(k *kit.Kit) *http.Server {
	server := k.NewServer(k.Handler(false, a.Routes(Socket)))
	withConn := server.ConnContext
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return ConnContext(withConn(ctx, c), c) }
	server.IdleTimeout = idleTimeout
	server.RegisterOnShutdown(k.Drain)
	return server
}
