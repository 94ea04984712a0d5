package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/record/sqlite"
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

// openStore locks the data directory and opens the database in it. It blocks for as
// long as the disk does not answer, even beyond ctx.
func (g *Gateway) openStore(ctx context.Context) (err error) {
	if err := refuseRoot(g.cfg.Data); err != nil {
		return err
	}
	if g.release, err = TakeData(g.cfg.Data); err != nil {
		return err
	}
	g.db, err = sqlite.Open(ctx, sqlite.Config{
		Path: databasePath(g.cfg.Data), Copy: copyPath(g.cfg), Boot: g.boot, Logger: g.log, Damaged: g.damageFound, Copied: g.copyTried,
	})
	return err
}

// guard runs the steps of a start. Every step that touches a disk may wait for it
// without end; then the HTTP listeners answer health checks, the service manager is asked
// for more time, and the end of ctx ends the start.
func (g *Gateway) guard(ctx context.Context, steps []step) error {
	w := &waiting{g: g, patience: time.NewTimer(storePatience)}
	defer w.end()
	for _, s := range steps {
		if err := w.run(ctx, s); err != nil {
			w.close()
			return err
		}
	}
	return nil
}

// waiting is the guard of one start. The goroutine of that start binds addresses; each
// step that touches a disk runs in a goroutine of its own.
type waiting struct {
	g        *Gateway
	patience *time.Timer
	ticker   *time.Ticker // nil while the storage answers in time
	doing    string       // the step that waits
}

// run runs one step and returns its error; errAbandoned if ctx ends and the step does
// not.
func (w *waiting) run(ctx context.Context, s step) error {
	var tick <-chan time.Time
	if w.ticker != nil {
		w.patience.Reset(stepGrace)
		tick = w.ticker.C
	}
	if s.quick {
		return s.run(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return awaitCancelled(ended)
		case <-tick:
			w.extend()
		case <-w.patience.C:
			w.report(s)
			if w.ticker == nil {
				w.ticker = time.NewTicker(startExtension / 3)
				tick = w.ticker.C
				if err := w.serveHealth(ctx); err != nil {
					return errors.Join(err, errAbandoned)
				}
			}
		}
	}
}

// awaitCancelled waits a moment for a cancelled step.
func awaitCancelled(ended <-chan error) error {
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

// serveHealth binds all addresses and answers health checks on those of HTTP.
func (w *waiting) serveHealth(ctx context.Context) error {
	if err := w.g.bind(ctx); err != nil {
		return err
	}
	w.g.log.Info("health is served while the storage does not answer")
	w.g.fronts.start()
	if w.g.usesTLS() {
		go w.g.readCertificate() // may wait for the disk, too
	}
	return nil
}

// readCertificate reads the stored certificate, for the time before there is a keeper.
func (g *Gateway) readCertificate() {
	cert, key, err := certificateFiles(g.cfg)
	if err != nil {
		return
	}
	if pair := certificate.Stored(certificateFolder(g.cfg.Data), cert, key); pair != nil {
		stored := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }} //nolint:gosec // only its certificate is used
		g.shown.CompareAndSwap(nil, stored)
	}
}

// report says which step waits.
func (w *waiting) report(s step) {
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

// close ends the answers to health checks of a start that failed.
func (w *waiting) close() {
	if w.g.fronts == nil || w.ticker == nil {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	w.g.fronts.leave(now, 0)
}

// end clears the condition of a start that waited.
func (w *waiting) end() {
	w.patience.Stop()
	if w.ticker != nil {
		w.ticker.Stop()
		w.g.conditions.Clear(health.StorageUnresponsive)
	}
}
