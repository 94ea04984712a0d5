package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// The gateways that are compared: the same load, which changes a lock with every unlock,
// and web consoles that show every change.
const (
	noConsole    = "no console"
	openConsoles = "50 consoles"
	consoles     = 50
)

// measureConsoles measures unlocks beside open web consoles.
func measureConsoles(ctx context.Context, o options, dir string, load *role, r *report) error {
	var started stack
	defer started.close()
	o.results, o.toggle = true, true
	var contenders []contender
	var lines atomic.Int64
	for _, name := range []string{noConsole, openConsoles} {
		p, err := newProduct(o.binary, dir, name)
		if err != nil {
			return err
		}
		p.extra = []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}
		made, err := p.contend(ctx, o, name, &started)
		if err != nil {
			return err
		}
		contenders = append(contenders, made)
		if name == openConsoles {
			if err := p.openConsoles(ctx, &lines, &started); err != nil {
				return err
			}
		}
	}
	// A difference of a twentieth needs many pairs: shorter ones, of about the same length.
	o.rounds, o.window = o.rounds*cloudPairs, o.window/3
	before := lines.Load()
	if err := runRounds(ctx, o, load, "console", contenders, []int{1, 8}, r); err != nil {
		return err
	}
	seen := lines.Load() - before
	if seen < consoles {
		return errors.New("the consoles saw no change")
	}
	progress("consoles: they received %d MB meanwhile", seen>>20)
	return nil
}

// openConsoles opens the streams of as many consoles, each over a connection of its own.
// read counts the bytes that they receive.
func (p *product) openConsoles(ctx context.Context, read *atomic.Int64, started *stack) error {
	bearer, err := p.login(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	started.push(cancel)
	for range consoles {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // our own gateway, on loopback
			ForceAttemptHTTP2: true,
		}
		started.push(transport.CloseIdleConnections)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.https+"/local/v1/watch", nil)
		if err != nil {
			return fmt.Errorf("opening a console: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+bearer)
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return fmt.Errorf("opening a console: %w", err)
		}
		started.push(func() { response.Body.Close() })
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("opening a console: %s", response.Status)
		}
		go func() { _, _ = io.Copy(counter{read}, response.Body) }()
	}
	for deadline := time.Now().Add(productPatience); read.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("the consoles show nothing")
		}
	}
	return nil
}

// counter counts what is written to it.
type counter struct{ bytes *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}
