package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

const (
	// storePatience is how long a start waits for the storage before it reports that.
	storePatience = 3 * time.Second
	// startExtension is how much longer the service manager is asked to wait, each
	// time that a third of it has passed.
	startExtension = time.Minute
	// stepGrace is how long a cancelled start waits for its step to end.
	stepGrace = time.Second
)

// errAbandoned ends a start that was cancelled while the disk did not answer: its step
// still runs, so only the end of the process releases what it holds.
var errAbandoned = fault.New(fault.Unavailable, "The storage did not answer: check the disk with dmesg")

// step is one step of a start.
type step struct {
	doing string // for people, as in "the storage does not answer while ..."
	run   func(context.Context) error
}

// guard runs the steps of a start. Every step that touches a disk may wait for it
// without end; then the HTTP listeners answer health checks, the service manager is asked
// for more time, and the end of ctx ends the start.
func (g *Gateway) guard(ctx context.Context, steps []step) (err error) {
	var doing atomic.Value
	doing.Store(steps[0].doing)
	ended := make(chan error, 1)
	go func() {
		for _, s := range steps {
			doing.Store(s.doing)
			if err := s.run(ctx); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	patience := time.NewTimer(storePatience)
	defer patience.Stop()
	late := false
	for {
		select {
		case err = <-ended:
		case <-ctx.Done():
			select {
			case err = <-ended:
				err = cmp.Or(err, context.Canceled)
			case <-time.After(stepGrace):
				err = errAbandoned
			}
		case <-patience.C:
			if !late {
				err = g.serveHealth()
			}
			if late = true; err == nil {
				g.reportWaiting(doing.Load().(string))
				patience.Reset(startExtension / 3)
				continue
			}
		}
		if late {
			g.conditions.Clear(health.StorageUnresponsive)
			if err != nil {
				g.stopHealth()
			}
		}
		return err
	}
}

// serveHealth binds all addresses and answers health checks on those of HTTP, while the
// steps of the start go on.
func (g *Gateway) serveHealth() error {
	if err := g.bind(); err != nil {
		return errors.Join(err, errAbandoned)
	}
	g.log.Info("health is served while the storage does not answer")
	for _, f := range g.fronts {
		f.start()
	}
	if g.usesTLS() {
		go g.readCertificate() // may wait for the disk, too
	}
	return nil
}

// stopHealth ends what serveHealth has begun.
func (g *Gateway) stopHealth() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, f := range g.fronts {
		f.Shutdown(now, 0)
	}
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

// reportWaiting reports what waits for the storage.
func (g *Gateway) reportWaiting(doing string) {
	g.log.Error("the storage does not answer; the gateway cannot start before it does", "step", doing, "data", g.cfg.Data)
	g.conditions.Report(health.Fatal, health.StorageUnresponsive,
		"The storage does not answer while "+doing+", so the gateway does not know who may open a door",
		"Check the disk with dmesg; replace the card if it is worn")
	g.note(g.supervisor.Extend(startExtension, "Cannot open doors: the storage does not answer while "+doing))
}
