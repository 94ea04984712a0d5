package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// The gateways that are compared: the same data and load, and a cloud link that
// nothing of an unlock may wait for.
const (
	noCloud   = "no cloud"
	linkDown  = "link down"
	blackHole = "black hole"
	draining  = "draining"
)

// measureCloud measures unlocks beside a cloud link that is down, that has fallen
// into a black hole, and that hands up a backlog of 100,000 records.
func measureCloud(ctx context.Context, o options, dir string, load *role, r *report) error {
	var started stack
	defer started.close()
	mosquitto, address, err := startMosquitto(ctx, dir)
	if errors.Is(err, errNoMosquitto) {
		r.note("no cloud: %v", err)
		return nil
	} else if err != nil {
		return err
	}
	started.push(mosquitto.stop)
	nobody, err := freeAddress()
	if err != nil {
		return err
	}
	hole, err := newHole(address)
	if err != nil {
		return err
	}
	started.push(hole.close)
	var contenders []contender
	var gateways []*product
	for _, c := range []struct{ name, broker string }{{noCloud, ""}, {linkDown, nobody}, {blackHole, hole.address()}, {draining, address}} {
		p, made, err := startClouded(ctx, o, dir, c.name, c.broker, &started)
		if err != nil {
			return err
		}
		contenders, gateways = append(contenders, made), append(gateways, p)
	}
	if err := hole.swallow(); err != nil {
		return err
	}
	// A difference of a tenth needs many pairs: shorter ones, of about the same length.
	o.rounds, o.window = o.rounds*cloudPairs, o.window/3
	if err := runRounds(ctx, o, load, "cloud", contenders, []int{1, 8}, r); err != nil {
		return err
	}
	return checkDraining(ctx, gateways[len(gateways)-1])
}

// cloudPairs is how many short rounds stand for one.
const cloudPairs = 8

// checkDraining makes sure that the backlog was on its way all the time.
func checkDraining(ctx context.Context, p *product) error {
	var status struct {
		Cloud struct{ Delivered, Waiting int64 }
	}
	if err := p.command(ctx, &status, "status", "--json"); err != nil {
		return err
	}
	if c := status.Cloud; c.Delivered < 1000 || c.Waiting == 0 {
		return fmt.Errorf("the backlog did not drain beside the unlocks: %d records delivered, %d wait", c.Delivered, c.Waiting)
	}
	progress("cloud: %d records were delivered meanwhile, %d still wait", status.Cloud.Delivered, status.Cloud.Waiting)
	return nil
}

// startClouded starts a gateway with a long journal and a cloud at that broker.
func startClouded(ctx context.Context, o options, dir, name, broker string, started *stack) (*product, contender, error) {
	p, err := newProduct(o.binary, dir, name)
	if err != nil {
		return nil, contender{}, err
	}
	progress("cloud: filling the journal of %q", name)
	if err := fillJournal(ctx, p.data); err != nil {
		return nil, contender{}, err
	}
	if broker != "" {
		p.extra = []string{"GATEHOUSE_CLOUD_URL=tcp://" + broker, "GATEHOUSE_CLOUD_ACK=broker"}
	}
	c, err := p.contend(ctx, o, name, started)
	return p, c, err
}

// hole is a way to a broker that can swallow everything from one moment on, without
// closing anything.
type hole struct {
	listener net.Listener
	target   string
	passed   atomic.Int64 // bytes
	shut     atomic.Bool
}

func newHole(target string) (*hole, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the way to the broker: %w", err)
	}
	h := &hole{listener: listener, target: target}
	go h.serve()
	return h, nil
}

func (h *hole) address() string { return h.listener.Addr().String() }
func (h *hole) close()          { h.listener.Close() }

func (h *hole) serve() {
	for {
		near, err := h.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", h.target)
		if err != nil {
			near.Close()
			continue
		}
		go h.carry(far, near)
		go h.carry(near, far)
	}
}

// carry passes on what comes until the hole is shut; from then on it reads and
// forgets, as the ends of a dead network do, and closes nothing.
func (h *hole) carry(to io.Writer, from io.Reader) {
	data := make([]byte, 4096)
	for {
		n, err := from.Read(data)
		if err != nil {
			return
		}
		if h.shut.Load() {
			continue
		}
		h.passed.Add(int64(n))
		if _, err := to.Write(data[:n]); err != nil {
			return
		}
	}
}

// swallow shuts the hole once a gateway has come through.
func (h *hole) swallow() error {
	for deadline := time.Now().Add(productPatience); h.passed.Load() < 10_000; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("no gateway came through the way to the broker")
		}
	}
	h.shut.Store(true)
	return nil
}
