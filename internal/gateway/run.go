package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/board/discovery"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/door/broker"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
	"gatehouse/internal/web/trust"
)

// stage is one component that runs until its context ends. A stage that ends by
// itself stops the gateway.
type stage struct {
	name   string
	run    func(context.Context) error
	budget time.Duration // for stopping
}

// running is a stage that has been started.
type running struct {
	stage
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of its end; set before done is closed
}

// stages lists what runs, in the order of starting.
func (g *Gateway) stages() []stage {
	return []stage{
		{"receipts", g.web.Run, time.Second},
		{"clock", g.clock.Run, time.Second},
		{"storage", g.watchStorage, time.Second},
		{"journal", g.journal.Run, 2 * time.Second},
		{"journal head", g.journal.LogHead, time.Second},
		{"updates", g.updates.Run, time.Second},
		{"access", g.access.Run, time.Second},
		{"setup", g.setup.Run, time.Second},
		{"network name", g.followName, time.Second},
		{"certificate", unless(g.keeper == nil, g.keeper.Run), time.Second},
		{"stations", g.stations.Run, 2 * time.Second},
		{"unlocking", g.unlock.Run, time.Second},
		{"cloud link", g.cloud.Run, 9 * time.Second},
		{"home assistant", unless(g.house == nil, g.house.Run), 9 * time.Second},
		{"broker", g.serveMQTT, 6 * time.Second},
		{"administration", g.serveAdmin, 6 * time.Second},
		{"discovery", func(ctx context.Context) error { return discovery.Run(ctx, g.services(), g.networkName) }, time.Second},
		{"http", g.serveHTTP, 7 * time.Second},
		{"supervision", g.supervise, time.Second},
	}
}

// unless returns run, or for what is absent a function that only waits for its context.
func unless(absent bool, run func(context.Context) error) func(context.Context) error {
	if !absent {
		return run
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
}

// Run serves until ctx ends or a component fails, then stops in reverse order and
// closes the store. It may be called once.
func (g *Gateway) Run(ctx context.Context) error {
	ended := make(chan error, len(g.stages()))
	if err := machine.DisableCoreDumps(); err != nil {
		g.log.Warn("core dumps are not switched off", "error", err)
	}
	// One that was begun early has answered health checks alone. Ready is said when it answers all.
	for _, f := range g.fronts {
		f.open(g.web.Handler(f.listener.tls != nil, g.tables(f.listener)...))
	}
	var started []*running
	for _, s := range g.stages() {
		started = append(started, start(ctx, s, ended))
	}
	g.journal.AppendLater(site.Record{Kind: site.KindStarted, Facts: site.Facts{Detail: "version " + g.version}})
	g.conditions.Clear(health.Starting)
	g.announce()
	stopped := site.Record{Kind: site.KindStopped}
	select {
	case <-ctx.Done():
		g.log.Info("stopping")
		g.note(g.supervisor.Stopping())
	case by := <-g.restarting:
		g.log.Info("stopping, to be started again", "by", by.Name)
		g.note(g.supervisor.Stopping())
		stopped.Facts = site.ByActor(by)
		stopped.Detail = "to be started again"
	case failed := <-ended:
		g.log.Error("a component failed; stopping", "error", failed)
	}
	var err error
	for i := len(started) - 1; i >= 0; i-- {
		err = errors.Join(err, started[i].stop())
	}
	if err == nil {
		g.keepEvents()
	}
	g.journal.AppendLater(stopped)
	err = errors.Join(err, g.Close())
	g.log.Info("stopped")
	return err
}

// start runs a stage in its own goroutine, with a context that outlives ctx: when
// it stops is decided by stop.
func start(ctx context.Context, s stage, ended chan<- error) *running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{stage: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		err := s.run(ctx)
		switch {
		case err == nil && ctx.Err() == nil:
			err = errors.New("ended by itself")
		case err == nil || (ctx.Err() != nil && errors.Is(err, context.Canceled)):
			return
		}
		r.err = fmt.Errorf("%s: %w", s.name, err)
		ended <- r.err
	}()
	return r
}

// stop ends a stage and waits for it within its budget.
func (r *running) stop() error {
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(r.budget):
		return fmt.Errorf("%s did not stop within %s", r.name, r.budget)
	}
}

// announce logs that the gateway is ready, and where it listens.
func (g *Gateway) announce() {
	args := []any{"version", g.version, "gateway", g.id, "data", g.cfg.Data}
	for _, l := range g.listeners.describe() {
		args = append(args, l.Name, l.Address)
	}
	args = append(args, "admin", g.cfg.AdminSocket())
	g.log.Info("ready", args...)
	g.note(g.supervisor.Ready(g.words()))
}

// serveMQTT serves the stations. When it ends, no call of the cloud waits any more for a station.
func (g *Gateway) serveMQTT(ctx context.Context) error {
	all := make([]broker.Listener, 0, len(g.listeners.mqtt))
	for _, l := range g.listeners.mqtt {
		all = append(all, broker.Listener{Net: l.net, TLS: l.tls})
	}
	defer g.link.Stop()
	return g.broker.Serve(ctx, all...)
}

// serveAdmin serves the administration socket. Where there is none, or it was removed, it is
// created as soon as that is possible.
func (g *Gateway) serveAdmin(ctx context.Context) error {
	server := g.admin.NewServer(g.web)
	ended := make(chan error, 1)
	ticker := time.NewTicker(adminEvery)
	defer ticker.Stop()
	for serving := false; ; {
		if l := g.listeners.admin; l != nil && !serving {
			serving = true
			go func() { ended <- server.Serve(g.web.Receive(l)) }()
		}
		select {
		case <-ctx.Done():
			shutDown(ctx, server)
			if serving {
				<-ended //nolint:errcheck // it was told to end
			}
			return nil
		case err := <-ended:
			return err
		case <-ticker.C:
		}
		if serving && g.listeners.adminThere(g.cfg.AdminSocket()) {
			continue
		}
		if serving {
			g.listeners.abandonAdmin()
			<-ended //nolint:errcheck // as above
			serving = false
		}
		g.rebindAdmin(ctx)
	}
}

// shutDown finishes the requests in flight of a server whose context has ended.
func shutDown(ctx context.Context, server *http.Server) {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close()
	}
}

func (g *Gateway) serveHTTP(ctx context.Context) error {
	grace := time.Duration(0)
	if g.inherited {
		grace = handover
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range g.fronts {
		f.start()
		group.Go(func() error {
			return serve(ctx, f.ended, func(ctx context.Context) {
				g.web.Drain()
				f.Shutdown(ctx, grace)
			})
		})
	}
	return group.Wait()
}

// tables returns the routes of a listener.
func (g *Gateway) tables(l listener) [][]kit.Route {
	port, guide := g.httpsPort(), []kit.Route(nil)
	if port != "" {
		guide = trust.Routes(g.cfg.HostName(), port, g.authority)
	}
	if l.name == redirect {
		return [][]kit.Route{g.http.Guide(port), guide}
	}
	tables := [][]kit.Route{g.http.Routes(httpapi.Options{Metrics: isLoopback(l.net) || g.cfg.HTTP.Metrics}), guide}
	if l.tls != nil || isLoopback(l.net) { // no password crosses the network in clear text
		tables = append(tables, g.console, g.admin.Routes(adminapi.Web))
	}
	return tables
}

const (
	// drain is how long requests in flight may take after the stop.
	drain = 5 * time.Second
	// handover is how long kept connections get for one more request, whose answer asks
	// the client to reconnect, where a successor will accept it.
	handover = 300 * time.Millisecond
)

// serve waits until ctx ends, calls leave, which drains a service, and waits for its end.
// The error is that of a service that has ended before.
func serve(ctx context.Context, ended <-chan error, leave func(context.Context)) error {
	select {
	case <-ctx.Done():
	case err := <-ended:
		return err
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	leave(stopping)
	<-ended //nolint:errcheck // it was told to end
	return nil
}
