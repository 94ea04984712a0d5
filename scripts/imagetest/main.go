// Command imagetest proves the image that "make image" makes: in an emulated arm64
// machine with UEFI it starts it with a site file, opens doors, looks at it from
// within, and cuts the power again and again under load. The disk is then behind a
// cache that loses whatever the machine has not flushed, as a memory card does; and
// a control with a cache that loses flushed writes too must find records missing,
// which proves that a loss would be seen.
//
// It uses the public interfaces of the product alone: the boot partition, HTTPS, the
// command line on a copy of the data. It needs the Debian packages that
// "scripts/setup image" installs, no root, and about a minute for each start.
// Linux only; every child ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	image   string
	cuts    int
	control bool
	size    int64 // of the disk, in MiB
	keep    bool
}

func main() {
	var o options
	flag.StringVar(&o.image, "image", "", "the image to test (default: the one in build/image)")
	flag.IntVar(&o.cuts, "cuts", 10, "how often the power is cut under load")
	flag.BoolVar(&o.control, "control", true, "run the control too, whose disk loses flushed writes")
	flag.Int64Var(&o.size, "size", 4096, "the size of the disk in MiB")
	flag.BoolVar(&o.keep, "keep", false, "leave the disk and the consoles' logs behind")
	flag.Parse()
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
	dir    string // everything that is left behind
	binary string // of the gateway, for this machine
	disk   string
	name   string // of the gateway, which its certificate must have
	began  time.Time
	site   siteFile
	record *record
	first  float64 // seconds that the first start took until the site file was applied
	starts int     // of the machine, which number the logs of its console
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(os.Getenv("TMPDIR"), "gatehouse-imagetest-")
	if err != nil {
		return err
	}
	t := &trial{options: o, dir: dir, name: "localhost", began: time.Now(), site: newSite(), record: newRecord()}
	if o.keep {
		fmt.Println("image-test: everything stays in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		t.firstStart, t.lookWithin, t.cutFirstStart, t.cutPower, t.lastStart, t.controlRun,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line of progress.
func (t *trial) say(format string, args ...any) {
	fmt.Printf("image-test: %4.0f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// prepare builds the gateway for this machine, and makes the disk of the board.
func (t *trial) prepare(ctx context.Context) error {
	if t.image == "" {
		found, err := filepath.Glob("build/image/gatehouse_*_arm64.img")
		if err != nil || len(found) != 1 {
			return errors.New("there is no image in build/image: make one with scripts/image")
		}
		t.image = found[0]
	}
	t.binary = filepath.Join(t.dir, "gatehouse")
	build := exec.CommandContext(ctx, "go", "build", "-o", t.binary, "./cmd/gatehouse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the gateway: %w", err)
	}
	t.say("testing %s on a disk of %d MiB", t.image, t.size)
	return t.makeDisk(ctx, "disk.img")
}

// makeDisk makes the disk of the machine: the image as it would be on a larger card,
// with a site file on its boot partition.
func (t *trial) makeDisk(ctx context.Context, name string) error {
	t.disk = filepath.Join(t.dir, name)
	if err := command(ctx, "cp", "--sparse=always", t.image, t.disk); err != nil {
		return err
	}
	if err := os.Truncate(t.disk, t.size<<20); err != nil {
		return err
	}
	file := filepath.Join(t.dir, "site.toml")
	if err := t.site.write(file); err != nil {
		return err
	}
	return t.putOnBoot(ctx, file, "gatehouse-site.toml")
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

// await tries until ok returns nil, for at most patience.
func await(ctx context.Context, patience time.Duration, what string, ok func() error) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return nil
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
