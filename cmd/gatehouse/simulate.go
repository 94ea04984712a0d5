package main

import (
	"context"
	"errors"
	"net"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// simulation holds the flags of simulate.
type simulation struct {
	stations    int
	locks       int
	site        string
	credentials string
	broker      string
	faults      stationsim.Faults
	doors       time.Duration
}

const simulateLong = `Simulate stations that connect to the gateway like hardware: they report, open and
lock again, and misbehave if asked to. Ctrl-C ends it.

Without --site and --credentials, new stations are enrolled for the time of the
simulation, with ids from 900001 on and no grants, and removed at its end. --site
simulates the stations of a site file that have a secret there, --credentials those
that "station add --json" or "apply --json" printed ("-" is standard input). The
broker is the running gateway's unless --broker names another.

On a terminal the last event of each station is shown, elsewhere each event is a line,
with --json a JSON document.`

func (a *app) simulateCommand() *cobra.Command {
	var flags simulation
	cmd := a.command(&cobra.Command{
		Use:   "simulate",
		Short: "Simulate stations, for demonstrations, training and load",
		Long:  simulateLong,
		Example: `  gatehouse simulate
  gatehouse simulate --doors 4s
  gatehouse simulate --stations 1000 --json > events.json
  gatehouse simulate --site site.toml --drop 0.1 --jam 0.05 --slow 2s
  gatehouse station add --id 7 --locks 1 --json | gatehouse simulate --credentials -`,
	}, func(ctx context.Context, _ []string) error { return a.simulate(ctx, flags) })
	exclusive(cmd, "site", "credentials", "stations")
	exclusive(cmd, "site", "locks")
	f := cmd.Flags()
	f.IntVar(&flags.stations, "stations", 3, "enrol `N` stations")
	f.IntVar(&flags.locks, "locks", 0, "give each `N` locks (default 2 when enrolling, 1 with --credentials)")
	f.StringVar(&flags.site, "site", "", "simulate the stations of this site `FILE`")
	f.StringVar(&flags.credentials, "credentials", "", "simulate the stations whose credentials are in this `FILE`")
	f.StringVar(&flags.broker, "broker", "", "connect to the broker at `HOST:PORT`")
	f.Float64Var(&flags.faults.Drop, "drop", 0, "lose commands with probability `P`")
	f.Float64Var(&flags.faults.Jam, "jam", 0, "jam locks with probability `P`")
	f.DurationVar(&flags.faults.Slow, "slow", 0, "wait for `TIME` before acknowledging a command")
	f.DurationVar(&flags.doors, "doors", 0, "put a sensor on each door, which opens a second after an unlock and closes after `TIME`")
	return cmd
}

func (a *app) simulate(ctx context.Context, flags simulation) (err error) {
	err = errors.Join(
		within("stations", flags.stations, 1, maxSimulated), within("locks", flags.locks, 0, site.MaxLocks),
		within("drop", flags.faults.Drop, 0, 1), within("jam", flags.faults.Jam, 0, 1), within("slow", flags.faults.Slow, 0, time.Hour), within("doors", flags.doors, 0, 24*time.Hour))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	if flags.broker == "" {
		status, err := a.status(ctx)
		if err != nil {
			return err
		}
		if flags.broker, err = brokerOf(status.Listeners); err != nil {
			return err
		}
	}
	members, remove, err := a.members(ctx, flags)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil || ctx.Err() != nil {
		return err
	}
	return a.play(ctx, stationsim.FleetConfig{
		Members: members,
		Each:    stationsim.Config{Broker: stationsim.Broker{Address: flags.broker}, Faults: flags.faults, DoorOpen: flags.doors},
	})
}

// play runs the stations and writes their events until ctx ends or writing fails: with
// --json every one, else those that are not just a report, on a terminal the last of each
// station.
func (a *app) play(ctx context.Context, cfg stationsim.FleetConfig) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, width := a.text(), 0
	for _, m := range cfg.Members {
		width = max(width, len("station "+m.ID.String()))
	}
	var mu sync.Mutex // mu guards w
	board := a.screen("TIME", "STATION", "LAST EVENT")
	cfg.Each.OnEvent = func(e stationsim.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case a.json:
			w.err = a.document(e)
		case board != nil && e.Kind != stationsim.Reported:
			w.err = board.set(e.Station, a.hour(e.Time.Time), e.Station.String(), eventText(e))
		case e.Kind != stationsim.Reported:
			w.row([]int{0, width}, a.local(e.Time.Time), "station "+e.Station.String(), eventText(e))
		}
		if w.err != nil {
			cancel()
		}
	}
	fleet, err := stationsim.NewFleet(cfg)
	if err != nil {
		return err
	}
	if !a.json {
		w.printf("%s on %s; interrupt to end.", plural(len(cfg.Members), "simulated station"), cfg.Each.Broker.Address)
	}
	err = fleet.Run(ctx)
	board.end()
	return errors.Join(err, w.err)
}

// eventText returns "opened lock-1" and the like.
func eventText(e stationsim.Event) string {
	text := string(e.Kind)
	if e.Lock != "" {
		text += " " + e.Lock
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// brokerOf picks the gateway's own MQTT listener, reached over loopback when it
// listens on every address.
func brokerOf(listeners []adminapi.Listener) (string, error) {
	if address := addressOf(listeners, "mqtt", "localhost"); address != "" {
		return address, nil
	}
	return "", errors.New("the gateway has no MQTT listener without TLS: name another broker with --broker")
}

// addressOf returns HOST:PORT of the listener of that name, reached at unspecified when it
// listens on every address; "" if there is none.
func addressOf(listeners []adminapi.Listener, name, unspecified string) string {
	for _, l := range listeners {
		if host, port, err := net.SplitHostPort(l.Address); l.Name == name && err == nil {
			if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
				host = unspecified
			}
			return net.JoinHostPort(host, port)
		}
	}
	return ""
}
