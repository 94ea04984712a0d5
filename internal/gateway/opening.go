package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/web/httpapi"
)

const (
	// storePatience is how long a start waits for the storage before it says that it waits.
	storePatience = 3 * time.Second
	// startExtension is how much longer the service manager is asked to wait, each
	// time that a third of it has passed.
	startExtension = time.Minute
	// stepGrace is how long a cancelled start waits for its step to end, and how long each
	// step after a slow one may take before it is reported.
	stepGrace = time.Second
)

// errAbandoned ends a start that was cancelled while the disk did not answer: its step
// still runs, so only the end of the process releases what it holds.
var errAbandoned = fault.New(fault.Unavailable, "The storage did not answer: check the disk with dmesg")

// step is one step of a start.
type step struct {
	doing string // for people, as in "the storage does not answer while ..."
	run   func(context.Context) error
	quick bool // touches no disk
}

// early is what a start binds before the rest, to answer health checks.
type early struct {
	bound  map[string]net.Listener     // by configured address; see [Gateway.listen]
	narrow map[uint16]*addressListener // by port, of inherited sockets
}

// openStore locks the data directory and opens the database in it. It blocks for as
// long as the disk does not answer, even beyond ctx.
func (g *Gateway) openStore(ctx context.Context) (err error) {
	if err := refuseRoot(g.cfg.Data); err != nil {
		return err
	}
	if g.release, err = takeDirectory(g.cfg.Data); err != nil {
		return err
	}
	if err := backup.Complete(g.cfg.Data, g.log); err != nil {
		return err
	}
	g.db, err = sqlite.Open(ctx, sqlite.Config{Path: databasePath(g.cfg.Data), Copy: copyPath(g.cfg), Boot: g.boot, Logger: g.log})
	return err
}

// guard runs the steps of a start. Every step that touches a disk may wait for it
// without end; then every HTTP address that can be bound answers health checks, the
// service manager is asked for patience, and the end of ctx ends the start.
func (g *Gateway) guard(ctx context.Context, steps []step) error {
	w := &waiting{g: g, patience: time.NewTimer(storePatience), stored: make(chan *tls.Config, 1)}
	defer w.end()
	for _, s := range steps {
		if err := w.run(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// waiting is the guard of one start. The goroutine of that start binds addresses, here and
// in the quick step; each other step runs in a goroutine of its own.
type waiting struct {
	g        *Gateway
	patience *time.Timer
	ticker   *time.Ticker     // nil while the storage answers in time
	doing    string           // the step that waits
	stored   chan *tls.Config // capacity 1: the certificate, if it can be read
	server   *http.Server     // nil while the storage answers in time
	loops    sync.WaitGroup   // of server
	served   []string         // where server answers
}

// run runs one step and returns its error; errAbandoned if ctx ends and the step does
// not.
func (w *waiting) run(ctx context.Context, s step) error {
	if w.server != nil {
		w.patience.Reset(stepGrace)
	}
	if s.quick {
		err := s.run(ctx)
		if w.server != nil && err == nil {
			w.serveBound()
		}
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	for {
		var tick <-chan time.Time
		if w.ticker != nil {
			tick = w.ticker.C
		}
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return w.leave(ended)
		case <-w.patience.C:
			w.tell(s)
			if w.server == nil {
				w.begin(ctx)
			}
		case config := <-w.stored:
			w.serve(ctx, w.g.cfg.HTTP.TLSListen, config)
		case <-tick:
			w.extend()
		}
	}
}

// leave waits a moment for a cancelled step.
func (w *waiting) leave(ended <-chan error) error {
	timer := time.NewTimer(stepGrace)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err == nil {
			err = context.Canceled
		}
		return err
	case <-timer.C:
		return errAbandoned
	}
}

// begin begins to answer health checks, where it can.
func (w *waiting) begin(ctx context.Context) {
	w.ticker = time.NewTicker(startExtension / 3)
	w.server = &http.Server{
		Handler:     httpapi.Waiting(w.g.conditions),
		ReadTimeout: storePatience, WriteTimeout: storePatience,
	}
	w.serve(ctx, w.g.cfg.HTTP.Listen, nil)
	w.serveBound()
	if len(w.g.cfg.HTTP.TLSListen) > 0 {
		go w.readCertificate() // may wait for the disk, too
	}
}

// readCertificate reads the stored certificate.
func (w *waiting) readCertificate() {
	cert, key, err := certificateFiles(w.g.cfg)
	if err != nil {
		return
	}
	if pair := certificate.Stored(certificateFolder(w.g.cfg.Data), cert, key); pair != nil {
		w.stored <- &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}}
	}
}

// tell says which step waits.
func (w *waiting) tell(s step) {
	w.doing = s.doing
	w.g.log.Error("the storage does not answer; the gateway cannot start before it does", "step", s.doing, "data", w.g.cfg.Data)
	w.g.conditions.Raise(health.Condition{
		Code: health.StorageUnresponsive, Severity: health.Fatal,
		Summary: "The storage does not answer while " + s.doing + ", so the gateway does not know who may open a door",
		Advice:  "Check the disk with dmesg; replace the card if it is worn",
	})
	w.extend()
}

func (w *waiting) extend() {
	w.g.note(w.g.supervisor.Extend(startExtension, "Cannot open doors: the storage does not answer while "+w.doing))
}

// serve answers health checks on configured addresses, which it binds if they are not
// bound yet.
func (w *waiting) serve(ctx context.Context, addresses []string, config *tls.Config) {
	if len(w.g.listeners.http) > 0 {
		return // see serveBound
	}
	if w.g.early.bound == nil {
		w.g.early.bound = make(map[string]net.Listener)
	}
	var bound []net.Listener
	for _, address := range addresses {
		l, err := w.g.listen(ctx, address)
		if err != nil {
			w.g.log.Warn("health is not served while the storage does not answer", "address", address, "error", err)
		}
		if l != nil { // else it joined another
			w.g.early.bound[address] = l
			bound = append(bound, l)
		}
	}
	for _, l := range bound {
		w.answer(l, config)
	}
}

// serveBound answers health checks on every HTTP address that is bound for apps.
func (w *waiting) serveBound() {
	for _, l := range w.g.listeners.http {
		if !slices.Contains(w.served, l.net.Addr().String()) {
			w.answer(l.net, l.tls)
		}
	}
}

// answer answers health checks through a copy of a listener, which stays open after it.
func (w *waiting) answer(l net.Listener, config *tls.Config) {
	shared, err := duplicate(l)
	if err != nil {
		w.g.log.Warn("health is not served while the storage does not answer", "address", l.Addr().String(), "error", err)
		return
	}
	w.served = append(w.served, l.Addr().String())
	if config != nil {
		shared = tls.NewListener(shared, config)
	}
	w.g.log.Info("health is served while the storage does not answer", "address", l.Addr().String(), "tls", config != nil)
	w.loops.Go(func() { _ = w.server.Serve(shared) }) // until Close
}

// end ends the answers to health checks.
func (w *waiting) end() {
	w.patience.Stop()
	if w.server == nil {
		return
	}
	w.ticker.Stop()
	_ = w.server.Close()
	w.loops.Wait()
	w.g.conditions.Clear(health.StorageUnresponsive)
}

// duplicate returns a second listener on the same socket. Closing it leaves the first
// open.
func duplicate(l net.Listener) (net.Listener, error) {
	if narrow, ok := l.(*addressListener); ok {
		shared, err := duplicate(narrow.Listener)
		return &addressListener{Listener: shared, only: slices.Clone(narrow.only)}, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.New("the inherited socket cannot be shared")
	}
	f, err := tcp.File()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return net.FileListener(f)
}
