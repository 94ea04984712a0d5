package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/test/brokertest"
)

// fleet is everything that runs.
type fleet struct {
	options
	dir, binary string
	key         api.PrivateKey
	nodes       []*brokertest.Broker
	front       *brokertest.Proxy
	application *application
	gateways    []*gateway

	killed   string    // the address of the node that was killed
	killedAt time.Time // when
	hung     int       // how many connections went through it
	waiting  int       // gateways whose records have not all come in time
}

func (f *fleet) build(ctx context.Context) (err error) {
	progress("building the gateway")
	f.binary = filepath.Join(f.dir, "gatehouse")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", f.binary, "gatehouse/cmd/gatehouse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	f.key, err = api.Generate("fleet")
	return err
}

func (f *fleet) startCluster(ctx context.Context) (err error) {
	progress("starting a cluster of %d NATS servers", f.options.nodes)
	if f.nodes, err = brokertest.NATSCluster(f.dir, f.options.nodes); err != nil {
		return err
	}
	var targets []string
	for _, node := range f.nodes {
		if err := node.Launch(); err != nil {
			return err
		}
		targets = append(targets, node.Address())
	}
	for _, node := range f.nodes {
		if err := node.Await(ctx); err != nil {
			return err
		}
	}
	f.front, err = brokertest.ListenProxy("127.0.0.1:0", targets...)
	return err
}

// killOne lets commands flow, kills the node that most gateways hang on, and lets them
// flow on.
func (f *fleet) killOne(ctx context.Context) error {
	progress("sending %g commands a second for %s", f.rate, f.before)
	if err := f.application.send(ctx, f, f.before); err != nil {
		return err
	}
	victim := f.nodes[0]
	for _, node := range f.nodes[1:] {
		if f.front.Through(node.Address()) > f.front.Through(victim.Address()) {
			victim = node
		}
	}
	f.killed, f.hung = victim.Address(), f.front.Through(victim.Address())
	progress("killing %s, process %d, with %d connections", victim.Name, victim.PID(), f.hung)
	f.killedAt = time.Now()
	victim.Kill()
	progress("sending on for %s", f.after)
	return f.application.send(ctx, f, f.after)
}

// settle waits until everything that is to come has come.
func (f *fleet) settle(ctx context.Context) error {
	progress("waiting for what is still on its way")
	f.application.settleCommands(ctx)
	deadline := time.Now().Add(settlePatience)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		f.waiting = 0
		for _, g := range f.gateways {
			if status, err := g.admin.Status(ctx); err != nil || status.Cloud == nil || status.Cloud.Waiting > 0 || !status.Cloud.Connected {
				f.waiting++
			}
		}
		if f.waiting == 0 {
			break
		}
		pause(ctx, 200*time.Millisecond)
	}
	return ctx.Err()
}

// settlePatience bounds the wait for records: a gateway that has lost its broker may
// wait for a while before it tries again.
const settlePatience = 2 * time.Minute

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// end ends every process that was started, by its own handle, and whatever else runs.
func (f *fleet) end() {
	progress("ending everything")
	if f.application != nil {
		f.application.end()
	}
	var all sync.WaitGroup
	for _, g := range f.gateways {
		all.Go(g.end)
	}
	all.Wait()
	if f.front != nil {
		f.front.Close()
	}
	for _, node := range f.nodes {
		node.Kill()
	}
}
