package gateway

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"

	"gatehouse/internal/backup"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/httpapi"
	"gatehouse/internal/sqlite"
)

const (
	// storePatience is how long a start waits for the store before it says that it waits.
	storePatience = 3 * time.Second
	// startExtension is how much longer the service manager is asked to wait, each
	// time that a third of it has passed.
	startExtension = time.Minute
)

// opening is the result of openStore; db and release may be set beside an error.
type opening struct {
	db      *sqlite.DB
	release func()
	err     error
}

// openStore locks the data directory and opens the database in it. It blocks for as
// long as the disk does not answer, even beyond ctx.
func (g *Gateway) openStore(ctx context.Context) (o opening) {
	if o.err = refuseRoot(g.cfg.Data); o.err != nil {
		return o
	}
	if o.release, o.err = takeDirectory(g.cfg.Data); o.err != nil {
		return o
	}
	if o.err = backup.Complete(g.cfg.Data, g.log); o.err != nil {
		return o
	}
	o.db, o.err = sqlite.Open(ctx, sqlite.Config{Path: databasePath(g.cfg.Data), Copy: copyPath(g.cfg), Boot: g.boot, Logger: g.log})
	return o
}

// awaitStore waits for the store. While that does not answer, the plain HTTP listeners
// answer health checks: the process lives, it cannot open doors, and why.
func (g *Gateway) awaitStore(ctx context.Context, opened <-chan opening) (opening, error) {
	timer := time.NewTimer(storePatience)
	defer timer.Stop()
	select {
	case o := <-opened:
		return o, nil
	case <-ctx.Done():
		return opening{}, ctx.Err()
	case <-timer.C:
	}
	g.log.Error("the storage does not answer; the gateway cannot start before it does", "data", g.cfg.Data)
	g.conditions.Raise(health.Condition{
		Code: health.StorageUnresponsive, Severity: health.Fatal,
		Summary: "The storage does not answer, so the gateway does not know who may open a door",
		Advice:  "Check the disk with dmesg; replace the card if it is worn",
	})
	defer g.conditions.Clear(health.StorageUnresponsive)
	defer g.answerMeanwhile(ctx)()
	ticker := time.NewTicker(startExtension / 3)
	defer ticker.Stop()
	for {
		g.note(g.supervisor.Extend(startExtension, "Cannot open doors: the storage does not answer"))
		select {
		case o := <-opened:
			return o, nil
		case <-ctx.Done():
			return opening{}, fault.Wrap(fault.Unavailable, "The storage did not answer: check the disk with dmesg", ctx.Err())
		case <-ticker.C:
		}
	}
}

// answerMeanwhile serves health on the plain HTTP addresses until the returned function
// is called. An inherited socket stays open after that.
func (g *Gateway) answerMeanwhile(ctx context.Context) (end func()) {
	server := &http.Server{Handler: httpapi.Waiting(g.conditions), ReadTimeout: storePatience, WriteTimeout: storePatience}
	for _, address := range g.cfg.HTTP.Listen {
		at := slices.IndexFunc(g.sockets, func(l net.Listener) bool { return serves(l.Addr(), address) })
		var l net.Listener
		var err error
		if at >= 0 {
			l, err = duplicate(g.sockets[at])
		} else {
			l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
		}
		if err != nil {
			g.log.Warn("health is not served while the storage does not answer", "address", address, "error", err)
			continue
		}
		g.log.Info("health is served while the storage does not answer", "http", l.Addr().String())
		go func() { _ = server.Serve(l) }() // until Close
	}
	return func() { _ = server.Close() }
}

// duplicate returns a second listener on the same socket. Closing it leaves the first
// open.
func duplicate(l net.Listener) (net.Listener, error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fault.New(fault.Internal, "the inherited socket cannot be shared")
	}
	f, err := tcp.File()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return net.FileListener(f)
}
