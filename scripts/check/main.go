// Command check runs what must hold, in three tiers:
//
//	check test                what a developer runs: make and Go are enough
//	check check [STEP…]       all that must pass before a change is taken, or some of it
//	check campaign [NAME…]    the long ones, all or by name, with one report
//
// Each step writes its whole output to a file under build/, and one line to the terminal.
// The first step that fails ends test and check; the last lines name the step, the test and
// the file. A campaign that fails does not end the others.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("run it in the root of the tree: make test, make check or make campaign")
	}
	if len(args) == 0 {
		return errors.New("usage: check test | check [STEP…] | campaign [NAME…]")
	}
	verb, names := args[0], args[1:]
	var all []step
	switch verb {
	case "test":
		all = testSteps()
	case "check":
		all = checkSteps()
	case "campaign":
		all = campaigns()
	default:
		return fmt.Errorf("there is no %q: test, check or campaign", verb)
	}
	chosen, err := choose(all, names)
	if err != nil {
		return err
	}
	if verb != "test" && os.Geteuid() != 0 {
		return fmt.Errorf("make %s needs root, for containers, namespaces and disks: run it as root, or run make test", verb)
	}
	if err := prepare(verb != "test"); err != nil {
		return err
	}
	r := &runner{verb: verb, logs: filepath.Join("build", verb), goOn: verb == "campaign"}
	return r.run(ctx, chosen)
}

// choose returns the steps of these names in their order; all where there is no name.
func choose(all []step, names []string) ([]step, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s.name)
	}
	var chosen []step
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("there is no %q; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// prepare sets the environment of every step. One set of build flags for all of them means
// that each dependency is compiled once; without debugging data, tests are linked in half the time.
func prepare(required bool) error {
	stamp := fmt.Sprint(os.Getuid())
	if info, err := os.Stat("/var/lib/dpkg/status"); err == nil {
		stamp += fmt.Sprint(" ", info.ModTime().UnixNano())
	}
	binaries, err := filepath.Abs(filepath.Join("build", "binaries"))
	if err != nil {
		return err
	}
	variables := map[string]string{
		"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false -ldflags=-w",
		"GATEHOUSETEST_MACHINE":  stamp, // see package need
		"GATEHOUSETEST_BINARIES": binaries,
		"PATH":                   os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin",
	}
	if required {
		variables["GATEHOUSETEST_REQUIRED"] = "1"
	}
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}
