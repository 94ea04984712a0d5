// Command imagetest proves the image that "make image" makes: in an emulated arm64
// machine with UEFI it starts it with a site file, opens doors, looks at it from
// within, and cuts the power again and again under load. The disk is then behind a
// cache that loses whatever the machine has not flushed, as a memory card does; and
// a control with a cache that loses flushed writes too must find records missing,
// which proves that a loss would be seen.
//
// Then it installs updates. Versions that do not start, hang, do not become ready, lose their
// stations or cannot migrate the database must leave the old one running, updates that
// are to be refused must change nothing; and the power is cut at each write of an update,
// up to the commit: in a model of what starts, for all of them, and in the machine for
// some. The same image is started as a Raspberry Pi 3, from U-Boot on.
//
// The updates of this test are made from the parts of the image. The disk has the image
// as users get it, but for a key that signs these updates, the certificate of their server,
// and a shell on the console.
//
// It observes the machine through the boot partition, HTTPS, a root shell on the console and
// a copy of the database; its updates are packed by the product's packages. A short form, one
// update and one fallback, and a day of the memory card's writes run only when they are named
// (-only). It needs the Debian packages that "scripts/setup image" installs, no root, and
// about a minute for each start.
// Linux only; every child ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	image   string
	loads   int
	cuts    int
	control bool
	size    int64 // of the disk, in MiB
	keep    bool
	only    string
	replay  string
	atOnce  int
}

func main() {
	var o options
	flag.StringVar(&o.image, "image", "", "the image to test (default: the one in build/image)")
	flag.IntVar(&o.loads, "loads", 10, "how often the power is cut under load")
	flag.IntVar(&o.cuts, "cuts", 300, "how often the power is cut in an update and the machine started again; each write of it is tried in a model")
	flag.BoolVar(&o.control, "control", true, "run the control too, whose disk loses flushed writes")
	flag.Int64Var(&o.size, "size", 4096, "the size of the disk in MiB")
	flag.StringVar(&o.only, "only", "", "run only this part: first, load, refusals, slots, cuts or raspberry; or card (over an hour) or short (one update and one fallback), which run only when they are named")
	flag.StringVar(&o.replay, "replay", "", "go on with the power cuts that were recorded in this folder, which -keep has left: judge them unless its cuts.json says that they are, and start those that were not started yet")
	flag.IntVar(&o.atOnce, "at-once", max(1, runtime.NumCPU()/2), "how many machines start at once after power cuts")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the disks, the recording and the consoles' logs")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "imagetest: %s: there are only flags, see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image-test: FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("image-test: all is well")
}

// trial is one run of the test.
type trial struct {
	options
	dir    string // all files of the run
	binary string // of the gateway, for this machine
	next   string // the same with the next schema
	disk   string
	name   string // of the gateway, which its certificate must have
	began  time.Time
	site   siteFile
	record *record
	first  float64 // seconds that the first start took until the site file was applied
	starts int     // of the machine, which number the logs of its console

	workshop  *workshop
	updates   string // the address of the update files, for the machine
	secure    string // the same with HTTPS
	authority []byte // in PEM, of its certificate
}

func run(ctx context.Context, o options) (err error) {
	if o.replay != "" {
		t := &trial{options: o, dir: o.replay, name: siteName + ".local", began: time.Now()}
		return t.replay(ctx)
	}
	t := &trial{options: o, name: "localhost", began: time.Now()}
	sections, err := t.chosen()
	if err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp(os.Getenv("TMPDIR"), "gatehouse-imagetest-"); err != nil {
		return err
	}
	defer func() { err = t.leave(err) }()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	for _, section := range sections {
		t.name, t.record, t.site = "localhost", newRecord(), newSite(section.stations)
		if err := t.makeDisk(ctx, "disk.img"); err != nil {
			return err
		}
		if section.reads {
			if err := t.buildReaders(ctx); err != nil {
				return err
			}
		}
		for _, step := range section.steps {
			if err := step(ctx); err != nil {
				return fmt.Errorf("%s: %w", section.name, err)
			}
		}
	}
	return nil
}

// leave removes what a run that ends with err has made: without -keep, all but the consoles' logs
// of one that failed.
func (t *trial) leave(err error) error {
	switch {
	case t.keep:
		fmt.Println("image-test: everything stays in", t.dir)
		return err
	case err == nil:
		return os.RemoveAll(t.dir)
	}
	fmt.Println("image-test: the consoles' logs stay in", t.dir)
	return errors.Join(err, filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".log" {
			err = os.Remove(path)
		}
		return err
	}))
}

// section is a part of the test, which begins with a new disk.
type section struct {
	name     string
	stations int  // of its site, each with two locks
	alone    bool // it runs only when it is asked for
	reads    bool // the journal on the disk
	steps    []func(context.Context) error
}

// sections returns all parts of the test, with those that run only when they are named.
func (t *trial) sections() []section {
	type steps = []func(context.Context) error
	return []section{
		{"short", siteStations, true, false, steps{t.short}},
		{"first", siteStations, false, false, steps{t.recordFirstStart, t.cutFirstStart}},
		{"load", siteStations, false, true, steps{t.firstStart, t.lookWithin, t.cutPower, t.lastStart, t.controlRun}},
		{"refusals", siteStations, false, false, steps{t.firstStart, t.badUpdates}},
		{"slots", siteStations, false, false, steps{t.firstStart, t.badSlots}},
		{"cuts", siteStations, false, true, steps{t.firstStart, t.powerCuts}},
		{"raspberry", siteStations, false, false, steps{t.raspberryPi}},
		{"card", cardStations, true, false, steps{t.cardDay}},
	}
}

// chosen returns the sections that are to run.
func (t *trial) chosen() (chosen []section, err error) {
	var names []string
	for _, s := range t.sections() {
		names = append(names, s.name)
		if s.name == t.only || t.only == "" && !s.alone {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		err = fmt.Errorf("there is no part %q to run; there are %s", t.only, strings.Join(names, ", "))
	}
	return chosen, err
}

// say prints a line of progress.
func (t *trial) say(format string, args ...any) {
	fmt.Printf("image-test: %4.0f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// prepare finds the image and serves what updates the test will make of it.
func (t *trial) prepare(ctx context.Context) error {
	if t.image == "" {
		found, err := filepath.Glob("build/image/gatehouse_*_arm64.img")
		if err != nil || len(found) != 1 {
			return errors.New("there is no image in build/image: make one with scripts/image")
		}
		t.image = found[0]
	}
	t.say("testing %s on a disk of %d MiB", t.image, t.size)
	if err := errors.Join(t.openWorkshop(), t.serveUpdates(ctx)); err != nil {
		return err
	}
	return nil
}

// buildReaders builds the gateways that read the journal.
func (t *trial) buildReaders(ctx context.Context) error {
	t.binary, t.next = filepath.Join(t.dir, "gatehouse"), filepath.Join(t.dir, "gatehouse-next")
	return errors.Join(compile(ctx, t.binary, "dev", "", nil), compile(ctx, t.next, "dev", nextSchema, nil))
}

// makeDisk makes the disk of the machine: the image as it would be on a larger card,
// with a site file on its boot partition.
func (t *trial) makeDisk(ctx context.Context, name string) error {
	t.disk = filepath.Join(t.dir, name)
	if err := errors.Join(copyFile(ctx, t.image, t.disk), copyFile(ctx, firmwareVariables, t.disk+".vars")); err != nil {
		return err
	}
	if err := os.Truncate(t.disk, t.size<<20); err != nil {
		return err
	}
	if err := t.adapt(ctx); err != nil {
		return err
	}
	file := filepath.Join(t.dir, "site.toml")
	if err := t.site.write(file); err != nil {
		return err
	}
	return t.putOnBoot(ctx, file, siteFileName)
}

// copyFile copies a file that is mostly empty.
func copyFile(ctx context.Context, from, to string) error {
	return command(ctx, "cp", "--sparse=always", from, to)
}

// command runs a program to its end and returns what it complains of as an error.
func command(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

// output runs a program to its end and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return string(out), nil
}

// patience bounds each wait; it is no measure of speed, and no verdict follows from it but
// that something never happens. The longest is for an update that is undone after its trial.
const patience = time.Hour

// attempt is when a request that a wait repeats is given up: one that was sent before the
// board's network was up, or as it restarted, stays silent.
const attempt = 5 * time.Second

// await tries until ok returns nil, for at most patience.
func await(ctx context.Context, what string, ok func() error) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s until %s: %w", patience, what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
