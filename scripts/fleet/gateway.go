package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

const (
	readyPatience = 2 * time.Minute
	stopGrace     = 20 * time.Second // after SIGTERM, before SIGKILL
	startAtOnce   = 4
)

// gateway is one gateway, a process of its own, with its stations.
type gateway struct {
	id       site.GatewayID
	dir      string
	admin    *client.Client
	process  *exec.Cmd
	stations []*stationsim.Station
	leave    func() // ends the stations
}

// startGateways starts them, a few at a time.
func (f *fleet) startGateways(ctx context.Context) error {
	progress("starting %d gateways with %d stations each", f.options.gateways, f.options.stations)
	for n := range f.options.gateways {
		g := &gateway{dir: filepath.Join(f.dir, fmt.Sprintf("gateway-%d", n+1))}
		g.admin = client.New(filepath.Join(g.dir, "admin.sock"))
		f.gateways = append(f.gateways, g)
	}
	// Processes are started by this thread, with which they end; what takes long is not.
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(startAtOnce)
	for n, g := range f.gateways {
		if err := g.start(f); err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			if err := g.populate(inner, f.options.stations); err != nil {
				return fmt.Errorf("gateway %d: %w", n+1, err)
			}
			return nil
		})
		if (n+1)%10 == 0 {
			progress("%d gateways", n+1)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return f.awaitAll(ctx)
}

// awaitAll waits until every gateway and every station is online.
func (f *fleet) awaitAll(ctx context.Context) error {
	deadline := time.Now().Add(readyPatience)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		linked, online := 0, 0
		for _, g := range f.gateways {
			status, err := g.admin.Status(ctx)
			if err != nil {
				return err
			}
			if status.Cloud != nil && status.Cloud.Connected {
				linked++
			}
			online += status.Stations.Online
		}
		if linked == len(f.gateways) && online == len(f.gateways)*f.options.stations {
			progress("%d gateways are connected, and %d stations", linked, online)
			return nil
		}
		pause(ctx, 200*time.Millisecond)
	}
	return errors.Join(ctx.Err(), errors.New("gateways or stations do not come online"))
}

// start starts the process. It is in a group of its own, so that Ctrl-C reaches only
// this program, which ends it in order; the kernel ends it should this one be killed.
func (g *gateway) start(f *fleet) error {
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(g.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	g.process = exec.Command(f.binary, "serve")
	g.process.Env = append(os.Environ(),
		"GATEHOUSE_DATA="+g.dir, "GATEHOUSE_HTTP_LISTEN=127.0.0.1:0", "GATEHOUSE_MQTT_LISTEN=127.0.0.1:0",
		"GATEHOUSE_CLOUD_URL=tcp://"+f.front.Address(), "GATEHOUSE_CLOUD_KEYS="+f.key.Public().String(),
		"GOMAXPROCS=1", // a board's worth of a machine that they share
	)
	g.process.Stdout, g.process.Stderr = log, log
	g.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := g.process.Start(); err != nil {
		g.process = nil
		return fmt.Errorf("starting a gateway: %w", err)
	}
	return nil
}

// populate waits until the gateway is ready, enrols its stations and plays them.
func (g *gateway) populate(ctx context.Context, stations int) error {
	status, err := g.ready(ctx)
	if err != nil {
		return err
	}
	g.id = status.GatewayID
	cfg := stationsim.FleetConfig{Each: stationsim.Config{Actuation: time.Millisecond, Relock: time.Second}}
	for _, l := range status.Listeners {
		if l.Name == "mqtt" {
			cfg.Each.Broker.Address = l.Address
		}
	}
	for n := range stations {
		issued, err := g.admin.AddStation(ctx, adminapi.NewStation{StationID: site.StationID(n + 1), Locks: 1})
		if err != nil {
			return err
		}
		cfg.Members = append(cfg.Members, stationsim.Member{ID: issued.StationID, Locks: 1, Secret: site.Secret(issued.MQTT.Password)})
	}
	playing, err := stationsim.NewFleet(cfg)
	if err != nil {
		return err
	}
	g.stations = playing.Stations
	run, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = playing.Run(run) // only its own end ends it
	}()
	g.leave = func() { stop(); <-ended }
	return nil
}

func (g *gateway) ready(ctx context.Context) (adminapi.Status, error) {
	deadline := time.Now().Add(readyPatience)
	for {
		status, err := g.admin.Status(ctx)
		if err == nil && status.Ready {
			_, err = g.admin.AcceptClock(ctx) // for signed commands, on a machine without a time service
			return status, err
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(g.dir, "log"))
			return status, fmt.Errorf("it does not get ready: %w\n%s", err, log)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// end ends the stations and the process.
func (g *gateway) end() {
	if g.leave != nil {
		g.leave()
	}
	g.admin.Close()
	if g.process == nil {
		return
	}
	_ = g.process.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopGrace, func() { _ = g.process.Process.Kill() })
	defer timer.Stop()
	_ = g.process.Wait()
}

// opened counts how often its locks have opened.
func (g *gateway) opened() (count int) {
	for _, s := range g.stations {
		count += s.Status().Opened
	}
	return count
}
