package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// simulation holds the flags of simulate.
type simulation struct {
	stations    int
	locks       int
	site        string
	credentials string
	broker      string
	tls         bool
	ca          string
	drop, jam   float64
	slow        time.Duration
	relock      time.Duration
	seed        uint64
}

const simulateLong = `Simulate stations that connect to the gateway like hardware: they report, open and
lock again, and misbehave if asked to. Ctrl-C ends it.

Without --site and --credentials, new stations are enrolled for the time of the
simulation, with ids from 900001 on and no grants, and removed at its end. --site
simulates the stations of a site file that have a secret there, --credentials those
that "station add --json" or "apply --json" printed ("-" is standard input). The
broker is the running gateway's unless --broker names another.

Each event is a line, with --json a JSON document.`

func (a *app) simulateCommand() *cobra.Command {
	var flags simulation
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate stations, for demonstrations, training and load",
		Long:  simulateLong,
		Example: `  gatehouse simulate
  gatehouse simulate --stations 1000 --json > events.json
  gatehouse simulate --site site.toml --drop 0.1 --jam 0.05 --slow 2s
  gatehouse station add --id 7 --locks 1 --json | gatehouse simulate --credentials -`,
		Args: exclusive(exclusive(takes(), "site", "credentials", "stations"), "site", "locks"),
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.simulate(ctx, flags) }),
	}
	f := cmd.Flags()
	flags.stations = 3
	f.Var(&number{&flags.stations, maxSimulated}, "stations", "enrol `N` stations")
	f.Var(&number{&flags.locks, site.MaxLocks}, "locks", "give each `N` locks (default 2 when enrolling, 1 with --credentials)")
	f.StringVar(&flags.site, "site", "", "simulate the stations of this site `FILE`")
	f.StringVar(&flags.credentials, "credentials", "", "simulate the stations whose credentials are in this `FILE`")
	f.StringVar(&flags.broker, "broker", "", "connect to the broker at `ADDRESS` (host or host:port)")
	f.BoolVar(&flags.tls, "tls", false, "connect over TLS")
	f.StringVar(&flags.ca, "ca", "", "trust the certificates of this PEM `FILE` (with --tls)")
	f.Float64Var(&flags.drop, "drop", 0, "lose commands with probability `P`")
	f.Float64Var(&flags.jam, "jam", 0, "jam locks with probability `P`")
	f.DurationVar(&flags.slow, "slow", 0, "wait for `TIME` before acknowledging a command")
	f.DurationVar(&flags.relock, "relock", 5*time.Second, "lock an open lock again after `TIME`")
	f.Uint64Var(&flags.seed, "seed", 0, "make the same choices with the same `N`")
	return cmd
}

func (f simulation) check() error {
	switch {
	case f.drop < 0 || f.drop > 1, f.jam < 0 || f.jam > 1:
		return wrongUsagef("--drop and --jam take a probability between 0 and 1")
	case f.slow < 0 || f.relock <= 0:
		return wrongUsagef("--slow and --relock take a duration such as 500ms or 3s")
	case f.ca != "" && !f.tls:
		return wrongUsagef("--ca needs --tls")
	}
	return nil
}

func (a *app) simulate(ctx context.Context, flags simulation) (err error) {
	if err := flags.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	broker, err := a.broker(ctx, flags)
	if err != nil {
		return err
	}
	members, remove, err := a.members(ctx, flags)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil || ctx.Err() != nil {
		return err
	}
	return a.play(ctx, stationsim.FleetConfig{
		Members: members,
		Seed:    flags.seed,
		Each: stationsim.Config{
			Broker: broker,
			Relock: flags.relock,
			Faults: stationsim.Faults{Drop: flags.drop, Jam: flags.jam, Slow: flags.slow},
		},
	})
}

// play runs the stations and writes their events until ctx ends or writing fails.
func (a *app) play(ctx context.Context, cfg stationsim.FleetConfig) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &view{app: a, cancel: cancel, w: a.text()}
	for _, m := range cfg.Members {
		v.width = max(v.width, len("station "+m.ID.String()))
	}
	cfg.Each.OnEvent = v.put
	fleet, err := stationsim.NewFleet(cfg)
	if err != nil {
		return err
	}
	if !a.json {
		v.w.printf("%s on %s; interrupt to end.", plural(len(cfg.Members), "simulated station"), cfg.Each.Broker.Address)
	}
	err = fleet.Run(ctx)
	if !a.json && v.w.err == nil {
		v.sumUp(fleet)
	}
	return errors.Join(err, v.w.err)
}

// broker returns the broker that the stations connect to.
func (a *app) broker(ctx context.Context, flags simulation) (b stationsim.Broker, err error) {
	if flags.tls {
		if b.TLS, err = tlsConfig(flags.ca); err != nil {
			return b, err
		}
	}
	if flags.broker != "" {
		b.Address = withPort(flags.broker, flags.tls)
		return b, nil
	}
	err = a.call(func(gw *client.Client) error {
		status, err := gw.Status(ctx)
		if err != nil {
			return err
		}
		b.Address, err = brokerOf(status.Listeners, flags.tls)
		return err
	})
	return b, err
}

func withPort(address string, secured bool) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	port := "1883"
	if secured {
		port = "8883"
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}

// brokerOf picks the gateway's own MQTT listener, reached over loopback when it
// listens on every address.
func brokerOf(listeners []adminapi.Listener, secured bool) (string, error) {
	for _, l := range listeners {
		if !strings.HasPrefix(l.Name, "mqtt") || l.TLS != secured {
			continue
		}
		host, port, err := net.SplitHostPort(l.Address)
		if err != nil {
			continue
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		return net.JoinHostPort(host, port), nil
	}
	if secured {
		return "", errors.New("the gateway has no MQTT listener with TLS: omit --tls, or name another broker with --broker")
	}
	return "", errors.New("the gateway has no MQTT listener without TLS: add --tls, or name another broker with --broker")
}

func tlsConfig(ca string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(ca) //nolint:gosec // named on the command line
	if err != nil {
		return nil, fmt.Errorf("reading the certificates to trust: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", ca)
	}
	return cfg, nil
}
