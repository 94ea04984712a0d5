// Command fleet shows many gateways meeting on a cluster of brokers, and what happens
// when one of these dies: it starts NATS servers with JetStream and MQTT as a cluster,
// gateways of many stations each, and an application that takes their records and sends
// signed commands; kills one server with SIGKILL; and reports whether every command was
// answered, every record came once, and how long gateways took to recover. It exits
// with status 1 if anything is missing.
//
// A gateway names one broker. Here that is a TCP front, as a site has it in a load
// balancer or a name with several addresses: it hands each connection to the next
// server that answers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	gateways int
	stations int           // of each gateway
	nodes    int           // of the cluster
	rate     float64       // commands in a second, of all gateways together
	before   time.Duration // commands until a node is killed
	after    time.Duration // and after that
}

func main() {
	runtime.LockOSThread() // children end with the thread that started them: the first one
	var o options
	flag.IntVar(&o.gateways, "gateways", 50, "run `N` gateways")
	flag.IntVar(&o.stations, "stations", 20, "each with `N` stations")
	flag.IntVar(&o.nodes, "nodes", 3, "on a cluster of `N` servers")
	flag.Float64Var(&o.rate, "rate", 20, "send `N` commands in a second")
	flag.DurationVar(&o.before, "before", 20*time.Second, "for this `TIME`, before a server is killed")
	flag.DurationVar(&o.after, "after", 40*time.Second, "and for this `TIME` after that")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.gateways < 1 || o.stations < 1 || o.nodes < 1 || o.rate <= 0 || flag.NArg() > 0 {
		return errors.New("there must be at least one of each: see -help")
	}
	dir, err := os.MkdirTemp("", "gatehouse-fleet-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	f := &fleet{options: o, dir: dir}
	defer func() {
		f.end()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	for _, step := range []func(context.Context) error{
		f.build, f.startCluster, f.startApplication, f.startGateways, f.killOne, f.settle,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return f.report(ctx)
}

// progress says what goes on.
func progress(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
