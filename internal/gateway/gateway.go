// Package gateway puts the parts together: it is the only package that knows all
// of them. It builds them, binds every listener before anything but health checks is
// served, starts in order, and stops in the exact reverse, the store last. It decides
// nothing about doors.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/access"
	"gatehouse/internal/access/amend"
	"gatehouse/internal/access/setup"
	"gatehouse/internal/board/admission"
	"gatehouse/internal/board/certificate"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/board/updates"
	"gatehouse/internal/cloud/homeassistant"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/config"
	"gatehouse/internal/door/broker"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/setup/provision"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/console"
	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
)

// Config is what to run. Config, Version and Logger are required.
type Config struct {
	Config  config.Config
	Version string
	Logger  *slog.Logger

	Level      *slog.LevelVar          // that of the Logger; nil: a reload does not change it
	Where      func(key string) string // where a key of the configuration stands, for errors; nil: its name
	Sockets    []net.Listener          // held by the service manager; the gateway closes its copies
	Supervisor *machine.Supervisor     // the service manager; nil: there is none
	System     machine.System          // where the time comes from; nil: this machine
	Exchange   slot.Exchange           // where root is asked for updates; the zero value is this machine

	// TakeBack has the database of before another version, if that left it, taken back; see
	// [sqlite.TakeBack].
	TakeBack bool
}

// Gateway is one whole gateway, bound and ready to run.
type Gateway struct {
	cfg     config.Config
	version string
	log     *slog.Logger
	boot    site.BootID
	id      site.GatewayID
	started time.Time

	level      *slog.LevelVar
	where      func(key string) string
	sockets    []net.Listener // inherited, not yet in use
	inherited  bool           // whether there were any
	supervisor *machine.Supervisor
	system     machine.System
	takeBack   bool
	exchange   slot.Exchange

	conditions *health.Registry
	metrics    *metric.Registry
	release    func() // releases the lock of the data directory
	db         *sqlite.DB
	clock      *machine.Clock
	journal    *journal.Service
	zone       *zone
	changes    *amend.Service
	unreadable bool // revocations that were not stored cannot be read; set before changes are made
	access     *access.Service
	setup      *setup.Service
	stations   *station.Service
	link       *stationlink.Link
	broker     *broker.Server
	unlock     *unlock.Service
	updates    *updates.Service
	cloud      *link.Link
	linked     atomic.Pointer[link.Link] // cloud, for the journal, which is there before it
	house      *homeassistant.Link       // nil: there is no Home Assistant
	clouded    config.Config             // what cloud goes by, and nothing else; the reloader's own
	web        *kit.Kit
	admin      *adminapi.API
	http       *httpapi.API
	console    []kit.Route
	handshakes *admission.Handshakes
	published  atomic.Pointer[string]     // see networkName
	keeper     *certificate.Keeper        // nil without any TLS listener
	shown      atomic.Pointer[tls.Config] // that of keeper; before it, the stored certificate, or nil
	bind       func() error               // once: a start that waits for the storage binds early
	listeners  listeners
	restarting chan site.Actor // capacity 1: who wants the gateway restarted
	fronts     []*front        // of the HTTP listeners; none before they are bound
}

// New opens the data, builds every part and binds every listener. While the storage does
// not answer, the HTTP listeners answer health checks; nothing else is served before Run.
// A failure is undone, and the error names the remedy. If ctx ends while the storage does
// not answer, New returns without waiting for it: then the process must end.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	g := &Gateway{
		cfg: cfg.Config, version: cfg.Version, log: cfg.Logger,
		boot: site.BootID(uuid.NewString()), conditions: &health.Registry{}, metrics: metric.New(),
		level: cfg.Level, where: cfg.Where, sockets: cfg.Sockets, inherited: len(cfg.Sockets) > 0, supervisor: cmp.Or(cfg.Supervisor, new(machine.Supervisor)),
		system: cfg.System, takeBack: cfg.TakeBack, exchange: cfg.Exchange, restarting: make(chan site.Actor, 1),
		// One core is left to the doors, where there are several.
		handshakes: admission.NewHandshakes(runtime.GOMAXPROCS(0)-1, cfg.Config.MQTT.ConnectTimeout),
	}
	if g.where == nil {
		g.where = func(key string) string { return key }
	}
	g.web = kit.New(kit.Config{Metrics: g.metrics, Logger: g.log, Handshakes: g.handshakes, Names: g.names})
	g.conditions.Report(health.Fatal, health.Starting,
		"The gateway is starting",
		"Wait a moment")
	g.bind = sync.OnceValue(func() error { return g.bindAll(ctx) })
	err := g.guard(ctx, []step{
		{"opening the database", g.openData},
		{"reading keys, accounts and stations", g.buildRules},
		{"reading recent unlocks", g.buildAdapters},
		{"reading the keys of the cloud link", g.buildCloud},
		{"reading the certificates", g.buildCertificate},
		{"binding the addresses", func(context.Context) error { return g.bind() }},
		{"creating the administration socket", g.bindAdmin},
		{"reading the last events", g.adoptEvents},
		{"preparing the setup", func(context.Context) error { g.setup.Start(); return nil }}, // it shows where the listeners are
	})
	switch {
	case errors.Is(err, errAbandoned):
		return nil, errors.Join(err, g.closeListeners())
	case err != nil:
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close releases what New acquired, for a gateway that is not run, or after Run.
func (g *Gateway) Close() error {
	errs := []error{g.closeListeners()}
	if g.listeners.admin != nil {
		errs = append(errs, ignoreClosed(g.listeners.admin.Close()))
		g.listeners.admin = nil
	}
	if g.db != nil {
		errs = append(errs, g.db.Close())
		g.db = nil
	}
	if g.release != nil {
		g.release()
		g.release = nil
	}
	return errors.Join(errs...)
}

// openData takes the data directory, the store and the clock. It blocks for as long as
// the disk does not answer, even beyond ctx.
func (g *Gateway) openData(ctx context.Context) (err error) {
	if err := refuseRoot(g.cfg.Data); err != nil {
		return err
	}
	if g.release, err = TakeData(g.cfg.Data); err != nil {
		return err
	}
	if s, err := g.exchange.ReadStatus(); err == nil && s.Image {
		if err := newUploads(g.exchange).clean(); err != nil {
			g.log.Warn("what is left of an upload cannot be removed", "error", err)
		}
	}
	stored := sqlite.Config{
		Path: filepath.Join(g.cfg.Data, "gatehouse.db"), Copy: copyPath(g.cfg), Boot: g.boot, Logger: g.log,
		Damaged: g.damageFound, Copied: g.copyTried, Rescued: g.rescued,
	}
	if g.takeBack {
		if err := sqlite.TakeBack(ctx, stored); err != nil {
			return err
		}
	}
	if g.db, err = sqlite.Open(ctx, stored); err != nil {
		return err
	}
	g.clock, err = machine.NewClock(machine.ClockConfig{
		Floor: g.db.Floor(), Save: g.db.SaveFloor, Logger: g.log, Health: g.conditions, System: g.system,
	})
	if err != nil {
		return err
	}
	g.db.UseClock(g.clock)
	g.reportTakenBack(ctx)
	g.started = g.clock.Now()
	g.id, err = g.db.GatewayID(ctx)
	return err
}

// buildRules builds what decides: journal, access, stations.
func (g *Gateway) buildRules(ctx context.Context) (err error) {
	g.journal, err = journal.New(journal.Config{
		Store: g.db, Clock: g.clock, Logger: g.log, Health: g.conditions, Metrics: g.metrics,
		MaxAge: g.cfg.Journal.MaxAge, MaxSize: int64(g.cfg.Journal.MaxSize), HardSize: int64(g.cfg.Journal.HardLimit()), Held: g.held,
	})
	if err != nil {
		return err
	}
	key, damaged := tokenKey(g.cfg.Data)
	if damaged != nil {
		g.log.Error("access tokens are signed with a key for this run alone", "error", damaged)
		g.conditions.Report(health.Warning, health.KeyDamaged,
			"The key of access tokens could not be read or kept; apps have to refresh after each start",
			"Check the owner of token.key in the data directory, and the disk; only if the file is damaged remove it; then restart the gateway")
	}
	if g.zone, err = openZone(ctx, g.cfg.TimeZone, g.db); err != nil {
		return err
	}
	g.changes = amend.New(g.db)
	g.access, err = access.New(ctx, access.Config{
		Store: g.db, Changes: g.changes, Clock: g.clock, Key: key, Issuer: g.id, Params: g.hashParams(),
		Logger: g.log, Metrics: g.metrics, Zone: g.zone.location(), HashSlots: g.cfg.Login.ParallelHashes,
		AccountFailures: g.cfg.Login.AccountFailures, AddressFailures: g.cfg.Login.AddressFailures,
	})
	if err != nil {
		return err
	}
	files := &setupFiles{code: filepath.Join(g.cfg.Data, "setup.code"), notice: noticePath(g.cfg.Data), text: g.setupNotice}
	g.setup = setup.New(setup.Config{Accounts: g.access, Store: files, Notice: files, Logger: g.log})
	g.updates = updates.New(updates.Config{
		Exchange: g.exchange, Journal: g.journal, Store: g.db, Clock: g.clock, Logger: g.log, Zone: g.zone.location,
	})
	g.zone.changed = g.access.SetZone
	g.changes.OnStored(g.zone.adopt)
	g.clock.OnStep(g.clockStepped)
	g.stations, err = station.New(ctx, station.Config{
		Store: g.db, Changes: g.changes, Journal: g.journal, Clock: g.clock, Logger: g.log, Metrics: g.metrics,
		Health: g.conditions, Alarms: g.cfg.Alarm, BatteryLow: g.cfg.Station.BatteryLow, FlushEvery: g.cfg.Station.SaveInterval,
	})
	if err != nil {
		return err
	}
	return g.resumeRevocations(ctx)
}

// hashParams returns argon2id's cost: what is configured, else what the board's
// memory allows.
func (g *Gateway) hashParams() access.Params {
	params := access.DefaultParams(machine.TotalMemory())
	if g.cfg.Login.HashMemory > 0 {
		params.MemoryKiB = uint32(g.cfg.Login.HashMemory / 1024) //nolint:gosec // validated by package config
	}
	if g.cfg.Login.HashTime > 0 {
		params.Time = uint32(g.cfg.Login.HashTime) //nolint:gosec // validated by package config
	}
	return params
}

// Logins that wait leave room for unlocks: they are less than half of the requests in
// flight. What is negative does not compile.
const _ = uint(kit.MaxRequests/2 - access.Waiting)

// buildAdapters builds what speaks to the outside, and plugs it to the rules.
func (g *Gateway) buildAdapters(ctx context.Context) (err error) {
	g.link = stationlink.New(g.stations, g.conditions, g.metrics, g.log)
	handler := &stationHandler{Link: g.link, conditions: g.conditions}
	g.stations.OnRevoked(func(id site.StationID) {
		g.link.Disconnect(id)
		handler.forget(id)
	})
	g.broker = broker.New(broker.Config{
		Authenticator: g.stations, Handler: handler, Logger: g.log, Metrics: g.metrics,
		Handshakes: g.handshakes,
		Limits: broker.Limits{
			Connections: min(g.cfg.MQTT.MaxConnections, machine.MostStations()), ConnectionsPerAddress: g.cfg.MQTT.MaxConnectionsPerAddress,
			ConnectTimeout: g.cfg.MQTT.ConnectTimeout, PacketsPerSecond: g.cfg.MQTT.PacketsPerSecond,
			WriteTimeout: g.cfg.MQTT.WriteTimeout, PacketSize: uint32(g.cfg.MQTT.MaxPacketSize), //nolint:gosec // validated by package config
		},
	})
	g.unlock, err = unlock.New(ctx, unlock.Config{
		Permissions: g.access, Doors: g.stations, Caller: g.link, Journal: g.journal,
		Clock: g.clock, Metrics: g.metrics, TTL: g.cfg.Unlock.TTL, Bounds: unlockBounds(g.cfg),
	})
	if err != nil {
		return err
	}
	g.link.Follow(g.unlock.Followed)
	g.metrics.Gauge("gatehouse_ready", func() float64 {
		if len(g.conditions.NotReady()) > 0 {
			return 0
		}
		return 1
	})
	g.admin = adminapi.New(adminapi.Config{
		Gateway: g.id,
		Access:  g.access, Stations: g.stations, Subscribed: g.link.Subscribed, Unlock: g.unlock.Unlock, Journal: g.journal,
		Apply: provision.New(g.access, g.stations, g.zone, g.changes).Apply, Timekeeper: g, Clock: g.clock, Backup: g.backUp, SealedBackup: g.sealedBackUp, EndAll: g.endAll, Restart: g.restart,
		Status: g.Status, Database: g.db.Check, Updates: g.updates, Uploads: newUploads(g.exchange), Zone: g.zone.location, Logger: g.log,
	})
	g.http = httpapi.New(httpapi.Config{
		Access: g.access, Stations: g.stations, Unlocker: g.unlock, Clock: g.clock, Health: g.conditions,
		Metrics: g.metrics, Gateway: g.id, Boot: g.boot, Setup: g.setup, Name: g.cfg.HostName(),
	})
	g.console = console.Routes()
	return nil
}

// unlockBounds returns what an account may ask for.
func unlockBounds(cfg config.Config) unlock.Bounds {
	return unlock.Bounds{Rate: cfg.Unlock.AccountRate, Burst: cfg.Unlock.AccountBurst, Pending: cfg.Unlock.AccountPending}
}
