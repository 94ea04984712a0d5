// Command bench measures Gatehouse beside what it is to be judged by, and prints
// one table: each figure, its target, what was measured, and the ratio. Absolute
// times say more about a machine than about a program; so every target that can
// be is a ratio of two servers that took turns in one run on one machine:
//
//   - floor: the least that an unlock can cost in Go, a bare net/http handler
//     that makes 200 bytes durable with group commit and asks a raw TCP peer;
//   - rival: Mosquitto with a service on paho and one SQLite insert per unlock;
//   - previous: a gatehouse of an earlier commit, where --previous names one;
//   - gatehouse: the whole path, from the bearer token to the station's PUBACK;
//   - bare: for reads, a handler that writes the same bytes and does nothing else.
//
// Each server is a process of its own, and so are the load and the stations,
// which are the same code for all; the request bytes of an unlock have the same
// form and length for all. The rounds are short and the servers alternate within
// each, in an order that rotates; meanwhile the others stand still. A figure is the
// median over the rounds; a ratio is estimated from those of the rounds, with an
// interval.
//
// It uses the public interfaces of the product alone (the command line and the
// protocols), builds the binary itself, and leaves nothing behind: every child
// ends by its handle, on Ctrl-C too, and with the harness if that is killed.
//
// Run it with "make bench" on an otherwise idle machine; -h lists the flags. The
// exit status is 0 whenever the measurement could be made: the table, not the
// status, says what falls short. Only what is written to the card in a day, which is
// a count, makes it 1 as well. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// roleFlag, with a name behind it, is the first argument of this program when it
// has started itself as a part of the measurement.
const roleFlag = "role="

// options are the flags.
type options struct {
	rounds   int
	window   time.Duration
	only     []string
	json     string
	dir      string
	binary   string
	previous string
	stations int
	results  bool
	toggle   bool
}

func main() {
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], roleFlag); ok {
			exit(runRole(name))
		}
	}
	o, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	// Children are started from this thread only, and the kernel ends them with
	// it; see startChild.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err = bench(ctx, o)
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runRole(name string) error {
	roles := map[string]func(*boss) error{
		"floor": runFloor, "rival": runRival, "bare": runBare, "load": runLoad, "stations": runStations,
	}
	role, ok := roles[name]
	if !ok {
		return fmt.Errorf("unknown role %q", name)
	}
	if err := role(newBoss()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func parseFlags(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement; the median counts")
	seconds := flags.Float64("seconds", 3, "length of each measurement in a round")
	quick := flags.Bool("quick", false, "2 rounds of 1 second: a look, not a measurement")
	only := flags.String("only", "", "parts to measure, comma-separated: floor, rival, gatehouse (unlocks), reads, cloud (unlocks beside a cloud link), consoles (unlocks beside open consoles), fleet (1,000 stations), card (bytes written in a day); empty for all")
	flags.StringVar(&o.json, "json", "", "write every sample and figure to this file as JSON")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "where the temporary data goes; its disk is part of what is measured")
	flags.StringVar(&o.binary, "binary", "", "measure this gatehouse instead of building one")
	flags.StringVar(&o.previous, "previous", "", "a gatehouse built from an earlier commit, to measure unlocks of beside this one")
	flags.IntVar(&o.stations, "stations", 100, "stations in the unlock and read figures")
	flags.BoolVar(&o.results, "results", false, "stations of the gateway also send a \"done\" result after each PUBACK")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.window = time.Duration(*seconds * float64(time.Second))
	if *quick {
		o.rounds, o.window = 2, time.Second
	}
	o.only = parts()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, part := range o.only {
		if !slices.Contains(parts(), part) {
			return o, fmt.Errorf("--only knows %s, not %q", strings.Join(parts(), ", "), part)
		}
	}
	if o.rounds < 1 || o.window <= 0 || o.stations < 1 || flags.NArg() > 0 {
		return o, errors.New("rounds, seconds and stations must be positive, and there are no arguments")
	}
	return o, nil
}

// parts are what --only chooses from.
func parts() []string {
	return []string{"floor", "rival", "gatehouse", "reads", "cloud", "consoles", "fleet", "card"}
}

func (o *options) wants(part string) bool { return slices.Contains(o.only, part) }

// needsProduct reports whether anything wanted is about the gateway itself.
func (o *options) needsProduct() bool {
	return o.wants("gatehouse") || o.wants("reads") || o.wants("cloud") || o.wants("consoles") || o.wants("fleet") || o.wants("card")
}

// bench measures everything that is wanted and prints it.
func bench(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "gatehouse-bench-")
	if err != nil {
		return fmt.Errorf("making the temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if o.needsProduct() && o.binary == "" {
		progress("building gatehouse")
		if o.binary, err = buildProduct(ctx, dir); err != nil {
			return err
		}
	}
	r := &report{Machine: describeMachine(dir)}
	if err := measure(ctx, o, dir, r); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted; everything has been ended")
		}
		return err
	}
	r.judge()
	r.print(os.Stdout)
	if o.json != "" {
		err = r.save(o.json)
	}
	if r.Card != nil && !cardFigure(r.Card).Passed {
		err = errors.Join(err, errCard)
	}
	return err
}

// measure runs the kinds of measurement, one after the other.
func measure(ctx context.Context, o options, dir string, r *report) error {
	load, err := startRole(ctx, "load", nil, nil)
	if err != nil {
		return err
	}
	defer load.stop()
	if o.wants("floor") || o.wants("rival") || o.wants("gatehouse") || o.wants("reads") {
		if err := measureRequests(ctx, o, dir, load, r); err != nil {
			return err
		}
	}
	if o.wants("cloud") {
		if err := measureCloud(ctx, o, dir, load, r); err != nil {
			return err
		}
	}
	if o.wants("consoles") {
		if err := measureConsoles(ctx, o, dir, load, r); err != nil {
			return err
		}
	}
	if o.wants("fleet") {
		if err := measureFleet(ctx, o, dir, r); err != nil {
			return err
		}
	}
	if o.wants("card") {
		return measureCard(ctx, o, dir, r)
	}
	return nil
}

// progress tells on standard error what is being done.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
